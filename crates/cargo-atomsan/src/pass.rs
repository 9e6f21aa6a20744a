//! A pass of engines over a recording. One thread makes events of the records, another one runs the
//! engines, a third one tells how far they are and stops them when the user wants it.

use crate::destination::{self, Destination};
use crate::engines;
use crate::interrupt;
use crate::progress::Progress;
use crate::recorded::Args;
use atomsan_engines::checker::Checker;
use atomsan_recording::{Events, Recording};
use atomsan_trace::names::Definition;
use atomsan_trace::{Batch, Names, Spec};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How many batches of events may wait for the engines.
const AHEAD: usize = 8;
/// How often the user is told, and asked.
const TICK: Duration = Duration::from_millis(100);
/// How often a recording is read until its events have been checked: its cells, the survey, the events.
const READINGS: u64 = 3;

/// Checks the events of a recording; `count` is how many there have been. They are kept in a trace file,
/// if there is a place for it, with the program's name.
pub(crate) fn check(
    events: &mut Events<'_>,
    spec: &Spec,
    args: &Args,
    trace: Option<(PathBuf, String)>,
    count: &AtomicU64,
) -> anyhow::Result<Checker> {
    let choices = args.flags.choices()?;
    let entries = match &args.flags.first_run {
        Some(_) => engines::choose(&["doublechecker".to_owned()])?,
        None => engines::choose(&args.engine)?,
    };
    let engines = entries.iter().map(|entry| entry.make(&choices)).collect();
    let mut checker = Checker::new(Names::new(spec.clone()), engines, false);
    let mut kept = match trace {
        Some((path, program)) => Some(keep(&path, program)?),
        None => None,
    };
    let checker = thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel::<Batch>(AHEAD);
        let engines = scope.spawn(move || {
            for mut batch in receive {
                checker.batch(&mut batch);
            }
            checker.finish();
            checker
        });
        for batch in events {
            if let Some(kept) = &mut kept {
                kept.write(&batch)?;
            }
            count.fetch_add(batch.events.len() as u64, Ordering::Relaxed);
            // Nobody listens any more after a panic, which is told below.
            if send.send(batch).is_err() {
                break;
            }
        }
        drop(send);
        let checker = engines.join();
        Ok::<_, anyhow::Error>(checker.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    if let Some(kept) = kept {
        kept.finish()?;
    }
    Ok(checker)
}

/// Begins a trace file for the events of a program.
fn keep(path: &Path, program: String) -> anyhow::Result<Destination> {
    let mut kept = Destination::open(Some(path), &destination::Flags::default())?;
    kept.write(&Batch {
        definitions: vec![Definition::Program(program.into())],
        events: Vec::new(),
    })?;
    Ok(kept)
}

/// How much work there is with a recording, for [`Progress`]. Its file has holes up to the budget.
pub(crate) fn work(file: &Path) -> u64 {
    READINGS * std::fs::metadata(file).map_or(0, |file| 512 * file.blocks())
}

/// Works with a recording, and lets the user see how far that is: so much was `done` before of
/// the `total`, and `count` is how many events there have been. Ctrl-C ends the recording early.
pub(crate) fn watched<T>(
    recording: &Recording,
    progress: &mut Progress,
    (done, total): (u64, u64),
    count: &AtomicU64,
    work: impl FnOnce() -> T,
) -> T {
    let _check = interrupt::Check::start();
    thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if interrupt::is_wanted() {
                    recording.stop();
                }
                let now = (done + recording.bytes_read()).min(total);
                progress.update(count.load(Ordering::Relaxed), now, Some(total));
            }
        });
        let result = work();
        drop(end);
        result
    })
}
