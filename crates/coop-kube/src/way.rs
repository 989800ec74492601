//! The way to a cluster, as `kubectl` finds it.

use std::env;
use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::trouble::Troubles;

/// Which cluster is meant.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// The file with the configuration; without it as `kubectl` finds it, or the service account.
    pub kubeconfig: Option<PathBuf>,
    /// The configuration's context, if not the current one.
    pub context: Option<String>,
}

/// Why no cluster is known.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWay {
    /// Nothing names one.
    #[error("no cluster is known: {0} is missing or empty; say which with --kubeconfig FILE or KUBECONFIG")]
    Nothing(String),
    /// What names one cannot be used.
    #[error("the configuration {0} names no cluster that can be used: {1}")]
    Unusable(String, String),
}

/// A cluster that is known. It may not answer.
#[derive(Clone)]
pub struct Reached {
    pub(crate) client: Client,
    pub(crate) troubles: Troubles,
}

impl std::fmt::Debug for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reached").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Reached {
    /// Returns what keeps us from it or from something in it, if that is known.
    pub fn trouble(&self) -> Option<String> {
        self.troubles.worst().map(|trouble| trouble.text)
    }

    /// Returns the API server's address.
    pub fn address(&self) -> &str {
        self.troubles.address()
    }
}

impl Way {
    /// Finds the cluster. Nothing is asked yet.
    pub async fn reach(&self) -> Result<Reached, NoWay> {
        let config = self.config().await?;
        // Without who asks: it is told to others.
        let url = &config.cluster_url;
        let host = url.authority().map_or("", |who| who.as_str().rsplit('@').next().unwrap_or_default());
        let address = format!("{}://{host}{}", url.scheme_str().unwrap_or("https"), url.path().trim_end_matches('/'));
        let client = Client::try_from(config).map_err(|error| self.unusable(cause(&error)))?;
        Ok(Reached { client, troubles: Troubles::at(&address) })
    }

    async fn config(&self) -> Result<Config, NoWay> {
        let wanted = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let read = match &self.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        let read = match read {
            // An empty one is as good as none.
            Ok(read) if read.contexts.is_empty() && self.context.is_none() => Err(KubeconfigError::FindPath),
            Ok(read) => match self.missing(&read) {
                Some(why) => return Err(self.unusable(why)),
                None => Config::from_custom_kubeconfig(read, &wanted).await,
            },
            Err(error) => Err(error),
        };
        let error = match read {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        match &error {
            KubeconfigError::FindPath => {}
            KubeconfigError::ReadConfig(error, _) if error.kind() == ErrorKind::NotFound => {}
            // What follows the first line is a picture of the file.
            error => return Err(self.unusable(error.to_string().lines().next().unwrap_or_default())),
        }
        // A pod has its service account.
        let in_pod = if self.kubeconfig.is_none() && self.context.is_none() { Config::incluster().ok() } else { None };
        in_pod.ok_or_else(|| NoWay::Nothing(self.place()))
    }

    /// Says what the configuration names and does not have. Who asks as a user that is not there would be asked for nothing.
    fn missing(&self, read: &Kubeconfig) -> Option<String> {
        let named = self.context.as_ref().or(read.current_context.as_ref()).filter(|name| !name.is_empty());
        let all = || read.contexts.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
        let Some(named) = named else {
            return Some(format!("it says no current context; say --context NAME: {}", all()));
        };
        let Some(context) = read.contexts.iter().find(|one| one.name == *named) else {
            return Some(format!("it has no context {named}, only {}", all()));
        };
        let context = context.context.as_ref()?;
        if !read.clusters.iter().any(|one| one.name == context.cluster) {
            return Some(format!("it has no cluster {}, which its context {named} is for", context.cluster));
        }
        let user = context.user.as_ref().filter(|user| !user.is_empty())?;
        let is_there = read.auth_infos.iter().any(|one| one.name == *user);
        (!is_there).then(|| format!("it has no user {user}, which its context {named} is for"))
    }

    fn unusable(&self, why: impl Into<String>) -> NoWay {
        NoWay::Unusable(self.place(), why.into())
    }

    /// Returns what is looked at.
    fn place(&self) -> String {
        let named = || env::var_os("KUBECONFIG").filter(|named| !named.is_empty()).map(PathBuf::from);
        self.kubeconfig.clone().or_else(named).as_deref().unwrap_or(Path::new("~/.kube/config")).display().to_string()
    }
}

/// Returns what is at the bottom of an error: what stands above it says the same in the words of a library.
pub(crate) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const GOOD: &str = "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
        clusters: [{name: here, cluster: {server: 'https://me:hush@127.0.0.1:6443/'}}]\n\
        contexts: [{name: here, context: {cluster: here, user: me}}]\nusers: [{name: me, user: {token: hush}}]\n";

    /// What a person reads: one sentence, which names the file and what to do, and says nothing twice.
    #[tokio::test]
    async fn what_names_no_cluster_is_said_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        let way = |context: Option<&str>| Way { kubeconfig: Some(file.clone()), context: context.map(str::to_owned) };
        let said = |error: NoWay| error.to_string().replace(&file.display().to_string(), "FILE");
        insta::assert_snapshot!(
            said(way(None).reach().await.expect_err("no file")),
            @"no cluster is known: FILE is missing or empty; say which with --kubeconfig FILE or KUBECONFIG"
        );
        fs::write(&file, GOOD).expect("written");
        insta::assert_snapshot!(
            said(way(Some("there")).reach().await.expect_err("no such context")),
            @"the configuration FILE names no cluster that can be used: it has no context there, only here"
        );
        assert_eq!(way(None).reach().await.expect("one").address(), "https://127.0.0.1:6443");
        fs::write(&file, "").expect("written");
        assert!(matches!(way(None).reach().await, Err(NoWay::Nothing(_))), "an empty one is as good as none");
        fs::write(&file, GOOD.replace("name: me", "name: you")).expect("written");
        let nobody = said(way(None).reach().await.expect_err("no such user"));
        assert!(nobody.ends_with(": it has no user me, which its context here is for"), "{nobody}");
        fs::write(&file, "clusters: [").expect("written");
        let wrong = said(way(None).reach().await.expect_err("no YAML"));
        assert!(wrong.starts_with("the configuration FILE names no cluster that can be used: "), "{wrong}");
        assert!(wrong.lines().count() == 1 && wrong.len() < 400, "{wrong}");
    }
}
