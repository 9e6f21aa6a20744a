//! A command with a time limit, and what is left of it when it is over.
//!
//! A driver may hang, with or without us, and cargo's children do not end with cargo: the command is a
//! process group of its own, and all of the group ends when the time is over, so that nothing is left behind.

use crate::Result;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a command may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a command ended.
pub(super) struct Ended {
    /// Whether it ended by itself.
    pub(super) in_time: bool,
    /// The most memory that the command itself had, without its children, in MB: that is the check.
    pub(super) megabytes: u64,
}

/// Runs a command to its end, or to the end of the time it has, and a little longer if it is asked to end.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<Ended> {
    let started = Instant::now();
    let mut child = command.process_group(0).spawn()?;
    let (mut megabytes, mut asked) = (0, false);
    let in_time = loop {
        megabytes = megabytes.max(memory(&child));
        if child.try_wait()?.is_some() {
            break !asked;
        }
        if started.elapsed() > limit && !asked {
            // What was recorded until now is checked.
            ask(&child)?;
            asked = true;
        }
        if started.elapsed() > limit + PATIENCE {
            break false;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    end(&mut child)?;
    Ok(Ended { in_time, megabytes })
}

/// Asks the command to end.
fn ask(child: &Child) -> Result<()> {
    let mut kill = Command::new("kill");
    kill.args(["-TERM", &child.id().to_string()]);
    kill.stderr(Stdio::null()).status()?;
    Ok(())
}

/// Ends what is left of the group.
fn end(child: &mut Child) -> Result<()> {
    let group = format!("-{}", child.id());
    // Fails if nothing is left.
    Command::new("kill")
        .args(["-KILL", "--", &group])
        .stderr(Stdio::null())
        .status()?;
    child.wait()?;
    Ok(())
}

fn memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| {
        let rest = line.strip_prefix("VmHWM:")?;
        rest.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    kilobytes.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_command_that_hangs() {
        let long = format!("98765{}", std::process::id());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("sleep {long} & sleep {long} & wait; :")]);
        let ended = run(&mut command, Duration::from_millis(300)).unwrap();
        assert!(!ended.in_time && ended.megabytes > 0);
        let is_left = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let commands =
                processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            let mut commands = commands.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            commands.any(|command| command.starts_with("sleep") && command.contains(&long))
        };
        // Who is ended ends a moment later.
        let mut tries = (0..100).inspect(|_| std::thread::sleep(Duration::from_millis(10)));
        assert!(tries.any(|_| !is_left()));
    }
}
