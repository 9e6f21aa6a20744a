//! A program that runs for us, and signals that are meant for it.
//!
//! Ctrl-C goes to the whole group of processes. The program decides what it means; we wait for
//! its end, so that what it did until then is checked, and end as it ended. SIGTERM goes to one
//! process, which is us, so it is passed on. One that comes while we check what was recorded ends the check,
//! and what was found so far is told ([`interrupt`]). Any other second signal, and one that comes when there is
//! nothing to wait for any more, ends us, and leaves nothing behind.

use crate::bell::{Bell, End, News};
use crate::interrupt;
use atomsan_online::Haste;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long we wait for processes that the program has left behind when it was interrupted.
const PATIENCE: Duration = Duration::from_secs(5);

/// A signal that comes so soon after the program's end was sent to both of us before it: the
/// program was quicker.
const QUICKER: Duration = Duration::from_secs(1);

/// What signals are for.
struct State {
    /// What is removed if we are ended.
    recordings: PathBuf,
    /// The process that we wait for.
    running: Option<Pid>,
    /// When the last one ended.
    ended: Option<Instant>,
    /// Signals that have come.
    signals: u32,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program to its end. What it records is in a directory, which is removed if we are ended.
pub(crate) fn run(command: &mut Command, recordings: &Path) -> io::Result<ExitStatus> {
    let status = start(command, recordings)?.wait();
    end(recordings);
    status
}

/// How soon we look again while there is something new in what the program does, and while there is nothing. Whoever
/// waits for us rings.
const SOON: Duration = Duration::from_millis(2);
const LATER: Duration = Duration::from_millis(4);

/// What is done while a program runs.
pub(crate) trait Company {
    /// The program has been started, and is being loaded.
    fn prepare(&mut self);

    /// The program has rung: answers what it asks; whether it asked anything.
    fn answer(&mut self) -> anyhow::Result<bool>;

    /// Follows it as far as it is; how soon again.
    fn advance(&mut self) -> anyhow::Result<Haste>;
}

/// Runs a program to its end, in company.
pub(crate) fn run_while(
    command: &mut Command,
    recordings: &Path,
    company: &mut impl Company,
) -> anyhow::Result<ExitStatus> {
    let mut bell = Bell::new()?;
    let mut child = start(command, recordings)?;
    let over = End::of(&child);
    company.prepare();
    let status = 'runs: loop {
        let pause = match company.advance()? {
            Haste::Now => continue,
            Haste::Soon => SOON,
            Haste::Later => LATER,
        };
        let due = Instant::now() + pause;
        loop {
            match bell.wait(&over, due) {
                News::End => {
                    if let Some(status) = child.try_wait()? {
                        break 'runs status;
                    }
                    break;
                }
                // Who asked nothing has another reason.
                News::Ring if company.answer()? && Instant::now() < due => {}
                News::Ring | News::Nothing => break,
            }
        }
    };
    end(recordings);
    Ok(status)
}

/// Whether a signal has come that is meant to end the program.
pub(crate) fn is_interrupted() -> bool {
    state().as_ref().is_some_and(|state| state.signals > 0)
}

/// From now on, signals mean what they mean here.
pub(crate) fn watch_signals() -> io::Result<()> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if !STARTED.swap(true, Ordering::Relaxed) {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        thread::spawn(move || listen(signals));
    }
    Ok(())
}

fn start(command: &mut Command, recordings: &Path) -> io::Result<Child> {
    watch_signals()?;
    let signals = state().as_ref().map_or(0, |state| state.signals);
    // Nothing is decided between the start of the program and the note that it runs.
    let mut now = state();
    let child = command.spawn()?;
    *now = Some(State {
        recordings: recordings.to_owned(),
        running: Some(Pid::from_child(&child)),
        ended: None,
        signals,
    });
    Ok(child)
}

fn end(recordings: &Path) {
    let mut interrupted = false;
    if let Some(state) = &mut *state() {
        state.running = None;
        state.ended = Some(Instant::now());
        interrupted = state.signals > 0;
    }
    if interrupted {
        wait_for_recorders(recordings);
    }
}

fn listen(mut signals: Signals) {
    for signal in signals.forever() {
        let mut state = state();
        let Some(state) = &mut *state else {
            if interrupt::stop() {
                continue;
            }
            std::process::exit(128 + signal);
        };
        let quicker = state.ended.is_some_and(|then| then.elapsed() < QUICKER);
        state.signals += 1;
        if state.running.is_none() && !(quicker && state.signals == 1) && interrupt::stop() {
            continue;
        }
        if state.signals > 1 || (state.running.is_none() && !quicker) {
            let _ = fs::remove_dir_all(&state.recordings);
            std::process::exit(128 + signal);
        }
        if signal == SIGTERM
            && let Some(pid) = state.running
        {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
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
