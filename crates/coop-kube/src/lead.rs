//! One operator at a time, by a Lease.
//!
//! Whoever holds it renews it. Another takes it when it has seen no renewal for the lease's whole time by its own clock, so
//! clocks that differ do no harm. Who cannot renew gives up well before that, and ends.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::trouble::Troubles;

/// How long a lease holds without a renewal.
const HOLDS: Duration = Duration::from_secs(15);
/// How often it is renewed, and for how long that may fail.
const RENEW: Duration = Duration::from_secs(4);
const GIVE_UP: Duration = Duration::from_secs(10);
/// How often somebody else's is looked at, and how long the API server may take to answer.
const LOOK: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);
const LEASES: &str = "leases";

/// Whoever wants to be the one.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) api: Api<Lease>,
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) troubles: Troubles,
}

/// What was last seen of the lease, and when that was first seen.
struct Sighting {
    version: Option<String>,
    since: Instant,
}

impl Candidate {
    /// Waits until the lease is ours.
    pub(crate) async fn win(&self) -> Lease {
        let mut sighting: Option<Sighting> = None;
        loop {
            let tried = timeout(ANSWER, self.try_once(&mut sighting)).await;
            let trouble = match &tried {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(self.troubles.trouble(LEASES, error)),
                Err(_) => Some(self.troubles.silence()),
            };
            self.troubles.note(LEASES, trouble);
            if let Ok(Ok(Some(lease))) = tried {
                return lease;
            }
            sleep(LOOK).await;
        }
    }

    async fn try_once(&self, sighting: &mut Option<Sighting>) -> Result<Option<Lease>, kube::Error> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let new = Lease { metadata, spec: Some(self.held(0)) };
            return lost_race(self.api.create(&PostParams::default(), &new).await);
        };
        let version = lease.metadata.resource_version.clone();
        let unchanged = match sighting {
            Some(sighting) if sighting.version == version => sighting.since.elapsed(),
            _ => {
                *sighting = Some(Sighting { version, since: Instant::now() });
                Duration::ZERO
            }
        };
        if !is_free(&lease, &self.identity, unchanged) {
            return Ok(None);
        }
        let turns = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let taken = Lease { spec: Some(self.held(turns + 1)), ..lease };
        // Whoever else takes it at the same time has another version then.
        lost_race(self.api.replace(&self.name, &PostParams::default(), &taken).await)
    }

    /// Renews the lease for as long as that works, and returns while nobody else can have it yet.
    pub(crate) async fn keep(&self, mut lease: Lease) {
        let mut renewed = Instant::now();
        loop {
            let until = renewed + GIVE_UP;
            if timeout_at(until, sleep(RENEW)).await.is_err() {
                return;
            }
            // Others count from when it is written, so we count from when it is sent.
            let sent = Instant::now();
            match timeout_at(until, self.renew(&lease)).await {
                Ok(Ok(Some(new))) => (lease, renewed) = (new, sent),
                Ok(Ok(None)) => return,
                Ok(Err(error)) => {
                    let why = self.troubles.trouble(LEASES, &error).text;
                    tracing::warn!("the lease cannot be renewed: {why}");
                }
                Err(_) => return,
            }
        }
    }

    /// Renews the lease; it is nothing if another holds it.
    async fn renew(&self, lease: &Lease) -> Result<Option<Lease>, kube::Error> {
        let turns = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let mut renewed = Lease { spec: Some(self.held(turns(lease))), ..lease.clone() };
        match self.api.replace(&self.name, &PostParams::default(), &renewed).await {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
            written => return written.map(Some),
        }
        // An answer of ours that got lost is no other's.
        let Some(found) = self.api.get_opt(&self.name).await?.filter(|found| is_held_by(found, &self.identity)) else {
            return Ok(None);
        };
        renewed.metadata = found.metadata;
        lost_race(self.api.replace(&self.name, &PostParams::default(), &renewed).await)
    }

    /// Lets the lease go, so that the next one need not wait.
    pub(crate) async fn release(&self) {
        let release = async {
            if let Ok(Some(mut lease)) = self.api.get_opt(&self.name).await
                && is_held_by(&lease, &self.identity)
            {
                if let Some(spec) = &mut lease.spec {
                    spec.holder_identity = None;
                }
                let _ = self.api.replace(&self.name, &PostParams::default(), &lease).await;
            }
        };
        // If it fails, the next one waits.
        let _ = timeout(ANSWER, release).await;
    }

    fn held(&self, transitions: i32) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(HOLDS.as_secs()).ok(),
            acquire_time: now.clone(),
            renew_time: now,
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }
}

fn is_held_by(lease: &Lease, identity: &str) -> bool {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(identity)
}

/// Tells whether a lease may be taken that was seen not to change for so long.
fn is_free(lease: &Lease, identity: &str, unchanged: Duration) -> bool {
    let spec = lease.spec.clone().unwrap_or_default();
    let holds =
        spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).map_or(HOLDS, Duration::from_secs);
    match spec.holder_identity.as_deref() {
        None | Some("") => true,
        Some(holder) => holder == identity || unchanged > holds,
    }
}

fn lost_race(written: Result<Lease, kube::Error>) -> Result<Option<Lease>, kube::Error> {
    match written {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use coop_sim::cluster::Cluster;
    use hyper::Method;
    use serde_json::json;

    use super::*;
    use crate::testing::{Fate, client, client_with};

    fn candidate(client: kube::Client, identity: &str) -> Candidate {
        Candidate {
            api: Api::namespaced(client, "team"),
            name: "lease".to_owned(),
            identity: identity.to_owned(),
            troubles: Troubles::at("https://cluster"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_operators_one_leads_and_the_other_follows_when_it_is_gone() {
        let cluster = Cluster::default();
        let [first, second] = ["first", "second"].map(|identity| candidate(client(&cluster), identity));
        let lease = first.win().await;
        let keeper = first.clone();
        let keeps = tokio::spawn(async move { keeper.keep(lease).await });
        timeout(Duration::from_secs(600), second.win()).await.expect_err("the first renews it");
        assert!(!keeps.is_finished());
        keeps.abort();
        let died = Instant::now();
        let lease = second.win().await;
        assert!(died.elapsed() > HOLDS - RENEW && died.elapsed() < HOLDS + 2 * LOOK, "{:?}", died.elapsed());
        let keeper = second.clone();
        let keeps = tokio::spawn(async move { keeper.keep(lease).await });
        timeout(Duration::from_secs(600), first.win()).await.expect_err("now the second renews it");
        keeps.abort();
        second.release().await;
        let told = Instant::now();
        first.win().await;
        assert!(told.elapsed() <= LOOK, "one that was let go is free at once");
    }

    /// The bug this keeps away: the API server refuses a renewal, then never answers who holds the lease. An operator that
    /// waits for that goes on while the next one leads already.
    #[tokio::test(start_paused = true)]
    async fn who_cannot_renew_gives_up_before_another_may_begin() {
        for silent in [Method::PUT, Method::GET] {
            let is_broken = Arc::new(AtomicBool::new(false));
            let broken = Arc::clone(&is_broken);
            let client = client_with(&Cluster::default(), move |request| match broken.load(Ordering::Relaxed) {
                true if *request.method() == silent => Fate::Silence,
                true => Fate::Refuse(409),
                false => Fate::Answer,
            });
            let candidate = candidate(client, "me");
            let lease = candidate.win().await;
            let won = Instant::now();
            is_broken.store(true, Ordering::Relaxed);
            candidate.keep(lease).await;
            assert!(won.elapsed() < HOLDS, "{:?}", won.elapsed());
        }
    }

    #[test]
    fn a_lease_is_taken_only_when_it_was_let_go_or_not_renewed() {
        let lease = |holder: Option<&str>| -> Lease {
            serde_json::from_value(json!({ "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 } }))
                .expect("a lease")
        };
        let after = Duration::from_secs;
        assert!(is_free(&lease(None), "me", after(0)));
        assert!(is_free(&lease(Some("")), "me", after(0)));
        assert!(is_free(&lease(Some("me")), "me", after(0)), "it was ours before we were started again");
        assert!(!is_free(&lease(Some("other")), "me", after(15)));
        assert!(is_free(&lease(Some("other")), "me", after(16)));
    }
}
