//! All events of a running program, for engines that work on a stream.
//!
//! The records come in the order in which the logs are followed, which respects all edges; they
//! wait in a window ([`Stream`]) until what comes next tells what they mean, and are events then.
//! When there are too many variables, the check starts over: a *chapter* ends. What the engines
//! have found in it is handed out ([`Follower::take_chapters`]), because ids mean something else from
//! then on.

use crate::follow::Follower;
use atomsan_engines::Engine;
use atomsan_engines::checker::Checker;
use atomsan_engines::demotion::Demotion;
use atomsan_recording::file::Record;
use atomsan_recording::symbols::Symbols;
use atomsan_recording::{Options, Stream};
use atomsan_trace::Batch;
use std::time::{Duration, Instant};

/// Makes engines.
pub type Make = Box<dyn Fn() -> Vec<Box<dyn Engine>>>;

/// How long a record waits for what comes next.
const PATIENCE: Duration = Duration::from_millis(500);
/// The same where the run is going to be compared with its recording: a machine that is busy must not decide what is known.
const PATIENCE_TO_COMPARE: Duration = Duration::from_secs(60);

/// What a variable costs, more or less, in all tables.
const BYTES: usize = 512;

pub(crate) struct Streaming {
    make: Make,
    stream: Option<Stream>,
    ticked: Instant,
    chapters: Vec<Checker>,
}

impl Streaming {
    pub(crate) fn new(make: Make) -> Streaming {
        Streaming {
            make,
            stream: None,
            ticked: Instant::now(),
            chapters: Vec::new(),
        }
    }

    /// The names of the process are known; `memory` is the budget.
    pub(crate) fn start(&mut self, symbols: Symbols, options: Options, memory: usize) {
        self.stream = Some(Stream::new(symbols, options, memory / BYTES));
    }

    pub(crate) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: usize, record: &Record) {
        if let Some(stream) = &mut self.stream {
            stream.push(slot, record);
        }
    }

    pub(crate) fn take_chapters(&mut self) -> Vec<Checker> {
        std::mem::take(&mut self.chapters)
    }
}

impl Follower {
    /// Checks what has enough behind it.
    pub(crate) fn stream_what_is_due(&mut self) {
        while let Some(batch) = self.stream().and_then(Stream::take) {
            self.give(batch);
        }
    }

    /// Checks what has waited for long enough.
    pub(crate) fn stream_on(&mut self, now: Instant) {
        let patience = match self.keeps_all() {
            true => PATIENCE_TO_COMPARE,
            false => PATIENCE,
        };
        let Some(streaming) = &mut self.streaming else {
            return;
        };
        if now.duration_since(streaming.ticked) < patience {
            return;
        }
        streaming.ticked = now;
        if let Some(batch) = self.stream().map(Stream::tick) {
            self.give(batch);
        }
    }

    /// The program has ended.
    pub(crate) fn finish_stream(&mut self) {
        if let Some(batch) = self.stream().map(Stream::finish) {
            self.give(batch);
        }
        self.checker.finish();
    }

    fn stream(&mut self) -> Option<&mut Stream> {
        self.streaming.as_mut()?.stream.as_mut()
    }

    fn give(&mut self, mut batch: Batch) {
        self.checker.batch(&mut batch);
        let renamed = self.stream().map(Stream::take_renamed);
        for (thread, name) in renamed.into_iter().flatten() {
            self.checker.rename_thread(thread, &name);
        }
        self.demote();
        let Some(streaming) = &mut self.streaming else {
            return;
        };
        let Some(stream) = streaming.stream.as_mut().filter(|stream| stream.is_full()) else {
            return;
        };
        self.checker.finish();
        let chapter = self.checker.start_over((streaming.make)());
        streaming.chapters.push(chapter);
        self.demotion = Demotion::default();
        self.checker.batch(&mut stream.start_over());
    }
}
