//! The processes beneath this one. A process whose parent has ended belongs to it too, because it
//! is their subreaper.

use std::collections::BTreeMap;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

/// A process as the system lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    parent: i32,
    /// It has ended, and its parent has not taken notice.
    is_zombie: bool,
}

/// Takes notice of all children that have ended, and returns whether none is left: then no process
/// is beneath this one. A child that another part of the program waits for must have ended before.
pub fn reap() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(error) => return error == Errno::CHILD,
        }
    }
}

/// Kills every process beneath this one. One that begins meanwhile is left for the next call.
pub fn kill_all() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let all = descendants(own).unwrap_or_else(|_| beneath(own, &listed()));
    for process in all.into_iter().filter_map(Pid::from_raw) {
        // It may have ended since.
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
}

/// Lists the processes beneath one, by the lists of children that the kernel keeps. Looks at no
/// other process, because many keepers may end their commands at the same time.
///
/// # Errors
/// If the kernel has no such lists.
fn descendants(root: i32) -> std::io::Result<Vec<i32>> {
    let mut found = children(root)?;
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        // It may have ended since. Then this process is the parent of its children.
        found.extend(children(parent).unwrap_or_default());
    }
    Ok(found)
}

/// Lists the children of a process, which belong to its threads.
fn children(process: i32) -> std::io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let list = std::fs::read_to_string(thread?.path().join("children"))?;
        found.extend(list.split_whitespace().filter_map(|id| id.parse::<i32>().ok()));
    }
    Ok(found)
}

fn beneath(root: i32, all: &BTreeMap<i32, Listed>) -> Vec<i32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        found.extend(all.iter().filter(|(_, p)| p.parent == parent).map(|(id, _)| *id));
    }
    found.retain(|id| *id != root && all.get(id).is_some_and(|process| !process.is_zombie));
    found
}

fn listed() -> BTreeMap<i32, Listed> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some((id, parse(&stat)?))
    })
    .collect()
}

/// Parses `77 (name of it) S 1 ...`; the name may have any characters.
fn parse(stat: &str) -> Option<Listed> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    Some(Listed { is_zombie: matches!(state, "Z" | "X"), parent: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_name_with_parentheses_hides_nothing() {
        let expected = Listed { parent: 12, is_zombie: false };
        assert_eq!(parse("7 (a) Z 1 (b) S 12 7 7 0"), Some(expected));
        let expected = Listed { parent: 1, is_zombie: true };
        assert_eq!(parse("7 (a) Z 1 7 7 0"), Some(expected));
        assert_eq!(parse("7"), None);
    }

    #[test]
    fn the_whole_tree_is_found_without_the_dead() {
        let process = |parent, is_zombie| Listed { parent, is_zombie };
        let all = BTreeMap::from([
            (1, process(0, false)),
            (10, process(1, false)),
            (11, process(10, false)),
            (12, process(11, true)),
            (13, process(12, false)),
            (14, process(1, false)),
        ]);
        assert_eq!(beneath(10, &all), [11, 13]);
        assert_eq!(beneath(14, &all), Vec::<i32>::new());
    }

    #[test]
    fn the_lists_of_children_and_the_list_of_all_processes_agree() {
        let script = "sh -c 'sleep 1000 & sleep 1000 & echo; wait' & wait";
        let mut command = std::process::Command::new("setsid");
        command.args(["-w", "sh", "-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The grandchildren were started before the line was written.
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap();
        assert_eq!(line.unwrap(), "");
        let root = i32::try_from(child.id()).unwrap();
        let mut by_lists = descendants(root).unwrap();
        let mut by_all = beneath(root, &listed());
        by_lists.sort_unstable();
        by_all.sort_unstable();
        for process in by_all.iter().filter_map(|id| Pid::from_raw(*id)) {
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
        let _ = child.kill();
        child.wait().unwrap();
        assert_eq!(by_lists, by_all);
        assert!(3 <= by_all.len(), "{by_all:?}");
    }

    #[test]
    fn this_system_lists_this_process() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        assert_eq!(listed().get(&own), Some(&Listed { parent, is_zombie: false }));
    }
}
