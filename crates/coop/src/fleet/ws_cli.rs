//! The command line of `coop ws`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::cli::Asking;

#[derive(Debug, Args)]
pub(crate) struct Ws {
    #[command(subcommand)]
    pub(super) what: What,
}

/// What can be done with projects and workspaces.
#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// Opens the project of a repository
    Open {
        #[command(flatten)]
        asking: Asking,
        /// A folder in it
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Forgets a project that has no workspaces
    Close {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
    },
    /// Lists projects and workspaces
    Ls {
        #[command(flatten)]
        asking: Asking,
    },
    /// Makes a workspace and prints its path
    Create {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
        /// Its name, which is also its branch's; a branch that is there is used
        name: String,
        /// What it begins at, and is compared with later
        #[arg(long, value_name = "REF")]
        base: Option<String>,
        /// A remote branch that it begins at and follows
        #[arg(long, value_name = "REF")]
        tracking: Option<String>,
        /// Start this agent of coop.toml in it
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Its first message, instead of the one in the file
        #[arg(long, value_name = "TEXT", requires = "agent")]
        prompt: Option<String>,
        /// The file
        #[arg(long, value_name = "PATH", default_value = "coop.toml")]
        file: PathBuf,
    },
    /// Tells what is known of a workspace, and what would be lost with it
    Show {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
        /// Which
        name: String,
        /// Fetch remote branches first
        #[arg(long)]
        refresh: bool,
    },
    /// Deletes a workspace, unless something would be lost
    Rm {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
        /// Which
        name: String,
        /// Leave its branch
        #[arg(long)]
        keep_branch: bool,
        /// Lose what is in no commit, and commits that are in no other branch
        #[arg(long)]
        ignore_warnings: bool,
        /// End processes that work there
        #[arg(long)]
        kill: bool,
    },
    /// Notes something about a workspace
    Note {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
        /// Which
        name: String,
        /// The note's key
        key: String,
        /// What; without it the note is removed
        value: Option<String>,
    },
    /// Starts an agent of coop.toml in a workspace and prints its id
    Spawn {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
        /// Which
        name: String,
        /// The agent's name in the file
        agent: String,
        /// Its first message, instead of the one in the file
        #[arg(long, value_name = "TEXT")]
        prompt: Option<String>,
        /// The file
        #[arg(long, value_name = "PATH", default_value = "coop.toml")]
        file: PathBuf,
        /// Its id [default: its name, with a number if that is taken]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
    },
    /// Puts the agents of a workspace to sleep
    Hibernate {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
        /// Which
        name: String,
    },
    /// Lets the agents of a workspace go on
    Wake {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
        /// Which
        name: String,
    },
    /// Prints what a terminal in a workspace needs, such as `eval "$(coop ws env feature/x)"`
    Env {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
        /// Which
        name: String,
    },
    /// Removes folders that belong to no workspace
    Sweep {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        project: InProject,
    },
}

#[derive(Debug, Args)]
pub(super) struct InProject {
    /// The project: its id, or the repository's path [default: the one of this folder]
    #[arg(long, value_name = "PROJECT")]
    pub(super) project: Option<String>,
}
