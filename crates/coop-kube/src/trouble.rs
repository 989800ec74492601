//! What stands between us and the API server, said once when it comes and once when it is over.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use kube::api::{Api, ListParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Error, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::way::cause;

/// How often it is looked whether a trouble is over: a watch that goes on says nothing until something changes.
const AGAIN: Duration = Duration::from_secs(5);

/// How much is told of what an API server says.
const SAID: usize = 300;

/// Why something is not known, or cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) text: String,
    /// It does not pass by itself: somebody has to change something in the cluster.
    pub(crate) is_lasting: bool,
}

/// The troubles that there are, by what they are about. Whoever has a clone sees the same.
#[derive(Clone, Debug)]
pub(crate) struct Troubles {
    /// The API server's address.
    address: Arc<str>,
    all: watch::Sender<BTreeMap<String, Trouble>>,
}

impl Troubles {
    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.into(), all: watch::Sender::new(BTreeMap::new()) }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the one that matters most.
    pub(crate) fn worst(&self) -> Option<Trouble> {
        let all = self.all.borrow();
        all.values().find(|trouble| trouble.is_lasting).or_else(|| all.values().next()).cloned()
    }

    /// Waits for one that does not pass by itself.
    pub(crate) async fn lasting(&self) -> Trouble {
        let mut changes = self.all.subscribe();
        loop {
            if let Some(found) = changes.borrow_and_update().values().find(|trouble| trouble.is_lasting) {
                return found.clone();
            }
            // We hold the other end ourselves.
            let _ = changes.changed().await;
        }
    }

    /// Notes what asking about something has come to.
    pub(crate) fn note(&self, about: &str, trouble: Option<Trouble>) {
        self.all.send_if_modified(|all| {
            if all.get(about) == trouble.as_ref() {
                return false;
            }
            match trouble {
                Some(trouble) => {
                    // What is so for everything is said once.
                    if all.values().all(|other| other.text != trouble.text) {
                        tracing::warn!("{}", trouble.text);
                    }
                    all.insert(about.to_owned(), trouble);
                }
                None => {
                    all.remove(about);
                    if all.is_empty() {
                        tracing::info!("the API server at {} answers again", self.address);
                    }
                }
            }
            true
        });
    }

    /// Says that no answer has come.
    pub(crate) fn silence(&self) -> Trouble {
        Trouble { text: format!("the API server at {} does not answer", self.address), is_lasting: false }
    }

    /// Says what an error means to people.
    pub(crate) fn trouble(&self, about: &str, error: &Error) -> Trouble {
        let server = format!("the API server at {}", self.address);
        let Error::Api(status) = error else {
            let text = match error {
                Error::SerdeError(wrong) => format!("{server} says what is not understood here: {wrong}"),
                error => format!("{server} cannot be reached: {}", cause(error)),
            };
            // The server is there, and is not the one that is meant, or does not know us.
            let is_lasting = text.contains("invalid peer certificate");
            return Trouble { text, is_lasting };
        };
        // Who is between may answer with a whole page.
        let said: String =
            status.message.lines().next().unwrap_or_default().trim_end_matches('.').chars().take(SAID).collect();
        let text = match status.code {
            401 => format!("{server} does not know us: look at the credentials in the configuration"),
            403 => {
                format!(
                    "{server} does not allow it ({said}): give the rights that the manifests in deploy/kubernetes have"
                )
            }
            404 if about == "agents" && !said.starts_with("namespaces ") => {
                format!("{server} has no Agents: apply deploy/kubernetes to it first")
            }
            _ => format!("{server} says: {said}"),
        };
        Trouble { text, is_lasting: matches!(status.code, 400 | 401 | 403 | 404) }
    }
}

/// What a watch tells.
pub(crate) type Told<K> = Pin<Box<dyn Stream<Item = Event<K>> + Send>>;

/// Returns what a watch tells, and notes what keeps it from telling. It lists anew by itself when it has expired, and tries again
/// while the API server is away.
pub(crate) fn told<K>(api: Api<K>, config: watcher::Config, troubles: Troubles) -> Told<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + DeserializeOwned + 'static,
{
    let about = K::plural(&()).into_owned();
    let events = Box::pin(watcher(api.clone(), config).default_backoff());
    let state = (events, api, troubles, about, false);
    Box::pin(stream::unfold(state, |(mut events, api, troubles, about, mut is_in_trouble)| async move {
        let event = loop {
            tokio::select! {
                event = events.next() => match event? {
                    // That it begins to list says nothing yet.
                    Ok(Event::Init) => break Event::Init,
                    Ok(event) => {
                        troubles.note(&about, None);
                        is_in_trouble = false;
                        break event;
                    }
                    Err(error) => is_in_trouble |= note(&troubles, &about, error),
                },
                () = sleep(AGAIN), if is_in_trouble => {
                    let trouble = match timeout(AGAIN, api.list_metadata(&ListParams::default().limit(1))).await {
                        Ok(Ok(_)) => None,
                        Ok(Err(error)) => Some(troubles.trouble(&about, &error)),
                        Err(_) => Some(troubles.silence()),
                    };
                    is_in_trouble = trouble.is_some();
                    troubles.note(&about, trouble);
                }
            }
        };
        Some((event, (events, api, troubles, about, is_in_trouble)))
    }))
}

/// Notes why a watch has broken off, and returns whether it has to be looked when that is over: a list says so itself.
fn note(troubles: &Troubles, about: &str, error: watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) => {
            troubles.note(about, Some(troubles.trouble(about, &error)));
            false
        }
        WatchStartFailed(error) => {
            troubles.note(about, Some(troubles.trouble(about, &error)));
            true
        }
        // Watches end now and then. Whether that means something shows when they are begun again.
        WatchFailed(_) | WatchError(_) => false,
        NoResourceVersion => {
            tracing::error!(about, "the API server lists without a version");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering};

    use coop_sim::cluster::Cluster;

    use super::*;
    use crate::resource::Agent;
    use crate::testing::{Fate, client_with};

    /// That it is over is noticed though nothing changes in the cluster, so that the watch says nothing.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_goes_on_ends_its_trouble() {
        let is_away = Arc::new(AtomicU16::new(1));
        let away = is_away.clone();
        let client = client_with(&Cluster::default(), move |request| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            if is_watch && away.load(Ordering::Relaxed) == 1 { Fate::Refuse(503) } else { Fate::Answer }
        });
        let troubles = Troubles::at("https://cluster");
        let mut events = told(Api::<Agent>::namespaced(client, "team"), watcher::Config::default(), troubles.clone());
        let reader = tokio::spawn(async move { while events.next().await.is_some() {} });
        let mut changes = troubles.all.subscribe();
        changes.wait_for(|all| !all.is_empty()).await.expect("it is ours");
        is_away.store(0, Ordering::Relaxed);
        let over = timeout(Duration::from_secs(3600), changes.wait_for(BTreeMap::is_empty)).await;
        assert!(over.is_ok(), "it is still told");
        reader.abort();
    }

    /// What people read while a cluster is not as it has to be.
    #[tokio::test(start_paused = true)]
    async fn a_trouble_is_said_in_one_sentence_and_passes() {
        let code = Arc::new(AtomicU16::new(404));
        let wanted = code.clone();
        let client = client_with(&Cluster::default(), move |_| match wanted.load(Ordering::Relaxed) {
            0 => Fate::Answer,
            code => Fate::Refuse(code),
        });
        let troubles = Troubles::at("https://cluster");
        let mut events = told(Api::<Agent>::namespaced(client, "team"), watcher::Config::default(), troubles.clone());
        let reader = tokio::spawn(async move { while events.next().await.is_some() {} });
        insta::assert_snapshot!(
            troubles.lasting().await.text,
            @"the API server at https://cluster has no Agents: apply deploy/kubernetes to it first"
        );
        let mut said = Vec::new();
        for next in [403, 401, 500, 0] {
            let before = troubles.worst();
            code.store(next, Ordering::Relaxed);
            let mut changes = troubles.all.subscribe();
            changes.wait_for(|all| all.values().next() != before.as_ref()).await.expect("it is ours");
            said.extend(troubles.worst().map(|trouble| format!("{} {}", trouble.is_lasting, trouble.text)));
        }
        insta::assert_snapshot!(said.join("\n"), @"
        true the API server at https://cluster does not allow it (no): give the rights that the manifests in deploy/kubernetes have
        true the API server at https://cluster does not know us: look at the credentials in the configuration
        false the API server at https://cluster says: no
        ");
        assert_eq!(troubles.worst(), None);
        reader.abort();
    }
}
