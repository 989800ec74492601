//! Counts a user's inotify instances against the limit.

use std::fs;
use std::io;
use std::path::Path;

/// What limits them, by its name for `sysctl`: in the whole machine and in the user namespace. The lower one holds.
const LIMITS: [&str; 2] = ["fs.inotify.max_user_instances", "user.max_inotify_instances"];
/// The least limit that the advice names.
const ADVISED_INSTANCES: u64 = 1024;

/// The inotify instances of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InUse {
    instances: usize,
    /// Processes whose open files cannot be read; coop's own are such.
    closed_processes: usize,
}

/// Returns how many there are and what to do if they are too few, or nothing where the system does not tell.
pub(crate) fn report() -> Option<String> {
    let limits = LIMITS.iter().filter_map(|name| Some((*name, limit(name)?)));
    let (name, limit) = limits.min_by_key(|(_, limit)| *limit)?;
    Some(sentences(in_use(Path::new("/proc"), rustix::process::geteuid().as_raw()), name, limit))
}

fn limit(name: &str) -> Option<u64> {
    let path = Path::new("/proc/sys").join(name.replace('.', "/"));
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Counts those that the user's processes have open.
fn in_use(processes: &Path, user: u32) -> InUse {
    let processes = fs::read_dir(processes).into_iter().flatten().flatten().map(|entry| entry.path());
    processes.filter(|process| user_of(process) == Some(user)).map(|process| instances_of(&process)).fold(
        InUse::default(),
        |all, one| match one {
            Ok(instances) => InUse { instances: all.instances + instances, ..all },
            Err(_) => InUse { closed_processes: all.closed_processes + 1, ..all },
        },
    )
}

/// Returns the user of a process. The folder of a process belongs to root where its open files cannot be read.
fn user_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

fn instances_of(process: &Path) -> io::Result<usize> {
    let is_inotify = |descriptor: &fs::DirEntry| {
        fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:inotify")
    };
    Ok(fs::read_dir(process.join("fd"))?.flatten().filter(is_inotify).count())
}

fn sentences(in_use: InUse, name: &str, limit: u64) -> String {
    let more = limit.saturating_mul(2).max(ADVISED_INSTANCES);
    let InUse { instances, closed_processes } = in_use;
    let closed = match closed_processes {
        0 => String::new(),
        1 => ", and those of 1 process, perhaps coop's, that does not show its open files".to_owned(),
        more => format!(", and those of {more} processes, coop's among them, that do not show their open files"),
    };
    format!(
        "This user's processes have {instances} of {limit} inotify instances{closed}. An agent needs one; coop polls the files of \
         those that get none.\n\
         To allow more: `sudo sysctl {name}={more}`. The line `{name}={more}` in /etc/sysctl.d/coop.conf keeps it."
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn instances_are_counted_by_descriptor_and_user() {
        let processes = tempfile::tempdir().expect("a folder");
        for (process, files) in
            [("1", &["anon_inode:inotify", "anon_inode:[eventfd]"][..]), ("2", &["anon_inode:inotify"; 2])]
        {
            let folder = processes.path().join(process);
            let descriptors = folder.join("fd");
            fs::create_dir_all(&descriptors).expect("made");
            fs::write(folder.join("status"), "Name:\tx\nUid:\t7\t8\t7\t7\n").expect("written");
            for (number, file) in files.iter().enumerate() {
                symlink(file, descriptors.join(number.to_string())).expect("made");
            }
        }
        let closed = processes.path().join("4");
        fs::create_dir(&closed).and_then(|()| fs::write(closed.join("status"), "Uid:\t8\t8\t8\t8\n")).expect("written");
        assert_eq!(in_use(processes.path(), 8), InUse { instances: 3, closed_processes: 1 });
        assert_eq!(in_use(processes.path(), 7), InUse::default());
    }

    #[test]
    fn the_advice_allows_more_than_the_limit() {
        let some = InUse { instances: 3, closed_processes: 2 };
        assert!(sentences(some, LIMITS[0], 128).contains("3 of 128 inotify instances, and those of 2 processes"));
        assert!(sentences(some, LIMITS[0], 128).contains("`sudo sysctl fs.inotify.max_user_instances=1024`"));
        assert!(sentences(some, LIMITS[1], 8192).contains("user.max_inotify_instances=16384"));
    }
}
