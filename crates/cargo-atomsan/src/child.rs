//! A program that runs for us, and signals that are meant for it.
//!
//! Ctrl-C goes to the whole group of processes. The program decides what it means; we wait for
//! its end, so that what it did until then is checked, and end as it ended. SIGTERM goes to one
//! process, which is us, so it is passed on. The second signal, and one that comes when there is
//! nothing to wait for any more, ends us, and leaves nothing behind.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long we wait for processes that the program has left behind when it was interrupted.
const PATIENCE: Duration = Duration::from_secs(5);

/// Signals that have come.
static SIGNALS: AtomicU32 = AtomicU32::new(0);
/// The process that we wait for, or 0.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Runs a program to its end. What it records is in a directory, which is removed if we are ended.
pub(crate) fn run(command: &mut Command, recordings: &Path) -> io::Result<ExitStatus> {
    listen(recordings.to_owned())?;
    let mut child = command.spawn()?;
    RUNNING.store(child.id(), Ordering::Release);
    let status = child.wait();
    RUNNING.store(0, Ordering::Release);
    if SIGNALS.load(Ordering::Acquire) > 0 {
        wait_for_recorders(recordings);
    }
    status
}

fn listen(recordings: PathBuf) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let before = SIGNALS.fetch_add(1, Ordering::AcqRel);
            let running = RUNNING.load(Ordering::Acquire);
            if before > 0 || running == 0 {
                let _ = fs::remove_dir_all(&recordings);
                std::process::exit(128 + signal);
            }
            if signal == SIGTERM
                && let Some(pid) = i32::try_from(running).ok().and_then(Pid::from_raw)
            {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    });
    Ok(())
}

/// cargo may end before the tests that it runs: these got the signal too.
fn wait_for_recorders(recordings: &Path) {
    let started = Instant::now();
    let recorders: Vec<String> = fs::read_dir(recordings)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    while started.elapsed() < PATIENCE && recorders.iter().any(|pid| is_alive(pid)) {
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_alive(pid: &str) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The state is behind the name, which is in parentheses.
    let state = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    !state.starts_with(['Z', 'X'])
}

#[cfg(test)]
mod tests {
    use super::is_alive;

    #[test]
    fn alive() {
        assert!(is_alive(&std::process::id().to_string()));
        assert!(!is_alive("4294967295"));
    }
}
