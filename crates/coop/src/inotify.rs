//! How many inotify instances the user has, and may have.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What limits them, by its name for `sysctl`: in the whole machine and in the user namespace. The lower one holds.
const LIMITS: [&str; 2] = ["fs.inotify.max_user_instances", "user.max_inotify_instances"];
/// As many as are enough for most.
const ENOUGH: u64 = 1024;

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
fn in_use(processes: &Path, user: u32) -> usize {
    let processes = fs::read_dir(processes).into_iter().flatten().flatten();
    let is_own = |process: &fs::DirEntry| process.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
    let descriptors = |process: fs::DirEntry| fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
    let is_inotify = |descriptor: &fs::DirEntry| {
        fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:inotify")
    };
    processes.filter(is_own).flat_map(descriptors).filter(is_inotify).count()
}

fn sentences(in_use: usize, name: &str, limit: u64) -> String {
    let more = limit.saturating_mul(2).max(ENOUGH);
    format!(
        "This user's processes have {in_use} of {limit} inotify instances. An agent needs one; coop polls the files of those that get none.\n\
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
            let descriptors = processes.path().join(process).join("fd");
            fs::create_dir_all(&descriptors).expect("made");
            for (number, file) in files.iter().enumerate() {
                symlink(file, descriptors.join(number.to_string())).expect("made");
            }
        }
        symlink("1", processes.path().join("self")).expect("made");
        let user = fs::metadata(processes.path()).expect("it is there").uid();
        assert_eq!(in_use(processes.path(), user), 3);
        assert_eq!(in_use(processes.path(), user + 1), 0);
    }

    #[test]
    fn the_advice_allows_more_than_the_limit() {
        assert!(sentences(3, LIMITS[0], 128).contains("3 of 128 inotify instances"));
        assert!(sentences(3, LIMITS[0], 128).contains("`sudo sysctl fs.inotify.max_user_instances=1024`"));
        assert!(sentences(3, LIMITS[1], 8192).contains("user.max_inotify_instances=16384"));
    }
}
