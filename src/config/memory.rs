//! How much memory the process may take, as its cgroup says: only of version 2, which every Kubernetes node of today has.

use std::{fs, path::Path};

/// Where the kernel tells which cgroup the process is in.
const OWN: &str = "/proc/self/cgroup";
/// Where cgroups are, also in a container.
const ALL: &str = "/sys/fs/cgroup";
/// Of how many cgroups, one in the other, the bounds are read.
const DEPTH: usize = 64;

/// Bytes; `None`: there is no bound, or none that can be read.
pub fn limit() -> Option<usize> {
    least(Path::new(ALL), own(&fs::read_to_string(OWN).ok()?)?)
}

/// The process' cgroup, below where all are.
fn own(told: &str) -> Option<&str> {
    told.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// The least of what a cgroup may take and those that it is in.
fn least(all: &Path, own: &str) -> Option<usize> {
    let bound = |group: &Path| {
        let told = fs::read_to_string(all.join(group).join("memory.max")).ok()?;
        // `max` is no number: there is none.
        told.trim().parse().ok()
    };
    Path::new(own).ancestors().take(DEPTH).filter_map(bound).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_least_of_the_cgroup_and_those_that_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path();
        let set = |group: &str, bound: &str| {
            fs::create_dir_all(all.join(group)).unwrap();
            fs::write(all.join(group).join("memory.max"), bound).unwrap();
        };
        assert_eq!(least(all, "pod/hub"), None, "nothing is told");
        set("pod/hub", "max\n");
        assert_eq!(least(all, "pod/hub"), None);
        set("pod", "2147483648\n");
        assert_eq!(least(all, "pod/hub"), Some(2 << 30));
        set("pod/hub", "1073741824\n");
        assert_eq!(least(all, "pod/hub"), Some(1 << 30));
        // As it looks in a container.
        set("", "4096\n");
        assert_eq!(least(all, ""), Some(4096));
    }

    #[test]
    fn the_cgroup_is_that_of_version_two() {
        assert_eq!(own("0::/\n"), Some(""));
        assert_eq!(own("4:memory:/a\n1:cpu:/\n0::/kubepods/b\n"), Some("kubepods/b"));
        assert_eq!(own("4:memory:/a\n"), None);
    }
}
