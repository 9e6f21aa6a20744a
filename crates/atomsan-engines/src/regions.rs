//! Where transactions begin and end.
//!
//! A thread's open regions nest: labelled blocks (`Begin`/`End`) and functions that the
//! specification calls atomic (`Enter`/`Exit`). The outermost open one is the transaction; what is
//! inside belongs to it. Events outside of all regions are unary transactions.
//!
//! Blocking for others is not atomic for anybody, so `Wait` and the barrier's `Arrive` end the
//! transaction in the middle of its region, and what follows is another transaction of the same
//! region ([`Boundary::Split`]). So does `Yield`: it says that others may interfere. Traces in the
//! field's formats have none; a recording has one wherever its program waits for others.
//!
//! The meaning of unbalanced streams is fixed in [`atomsan_trace::event`].

use atomsan_trace::spec::Atomic;
use atomsan_trace::{Event, FunctionId, Names, Op, SiteId};

/// What an event does to its thread's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boundary {
    /// Nothing: it happens inside of a transaction.
    Inside,
    /// Nothing: it happens outside of all transactions.
    Outside,
    /// It opens the outermost region: a transaction begins.
    Begin(FunctionId),
    /// It closes the outermost region: the transaction ends.
    End,
    /// The transaction ends with this event and another one of the same region follows.
    Split,
}

/// An open region or function of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFrame {
    /// Which function, or which label.
    pub function: FunctionId,
    /// The call, or the place of the `Begin`.
    pub site: SiteId,
    /// The position in the trace of the event that opened it.
    pub index: u64,
    /// Opened by `Begin`, closed by `End`.
    pub block: bool,
    /// Whether it is expected to be atomic.
    pub atomic: bool,
    /// How many functions the thread is in, up to this frame: recursion can be deep, and nobody
    /// counts frames.
    pub calls: usize,
}

/// How many functions a thread is in, and was in already at the position `since`.
pub fn calls_since(frames: &[OpenFrame], since: u64) -> usize {
    let spanning = frames.partition_point(|frame| frame.index <= since);
    spanning.checked_sub(1).map_or(0, |last| frames[last].calls)
}

#[derive(Debug, Default)]
struct Thread {
    frames: Vec<OpenFrame>,
    /// How many of the frames are atomic.
    atomic: usize,
    /// How many of the frames are functions.
    calls: usize,
}

/// The open regions of all threads.
#[derive(Debug, Default)]
pub struct Regions {
    threads: Vec<Thread>,
}

impl Regions {
    /// Follows one event.
    #[inline]
    pub fn step(&mut self, index: u64, event: &Event, names: &Names) -> Boundary {
        let thread = event.thread.index();
        if thread >= self.threads.len() {
            self.threads.resize_with(thread + 1, Thread::default);
        }
        let thread = &mut self.threads[thread];
        match event.op {
            Op::Begin(_) | Op::End | Op::Enter(_) | Op::Exit(_) => {
                thread.boundary(index, event, names)
            }
            Op::Wait(_) | Op::Arrive(_) | Op::Yield if thread.atomic > 0 => Boundary::Split,
            _ if thread.atomic > 0 => Boundary::Inside,
            _ => Boundary::Outside,
        }
    }

    /// The open frames of a thread, outermost first.
    pub fn frames(&self, thread: atomsan_trace::ThreadId) -> &[OpenFrame] {
        self.threads
            .get(thread.index())
            .map_or(&[], |thread| &thread.frames)
    }

    /// How many functions a thread is in.
    pub fn calls(&self, thread: atomsan_trace::ThreadId) -> usize {
        self.threads
            .get(thread.index())
            .map_or(0, |thread| thread.calls)
    }
}

impl Thread {
    fn boundary(&mut self, index: u64, event: &Event, names: &Names) -> Boundary {
        let before = self.atomic;
        match event.op {
            Op::Begin(function) => self.open(OpenFrame {
                function,
                site: event.site,
                index,
                block: true,
                atomic: names.function(function).map(|f| f.atomic) != Some(Atomic::No),
                calls: self.calls,
            }),
            Op::Enter(function) => self.open(OpenFrame {
                function,
                site: event.site,
                index,
                block: false,
                atomic: match names.function(function).map(|f| f.atomic) {
                    Some(Atomic::Yes) => true,
                    Some(Atomic::No) => false,
                    Some(Atomic::UnlessEntry) | None => !self.frames.is_empty(),
                },
                calls: self.calls + 1,
            }),
            Op::End => self.close(|frame| frame.block),
            Op::Exit(function) => self.close(|frame| !frame.block && frame.function == function),
            _ => {}
        }
        match (before, self.atomic) {
            (0, 0) => Boundary::Outside,
            (0, _) => match event.op {
                Op::Begin(function) | Op::Enter(function) => Boundary::Begin(function),
                _ => Boundary::Inside,
            },
            (_, 0) => Boundary::End,
            _ => Boundary::Inside,
        }
    }

    fn open(&mut self, frame: OpenFrame) {
        self.atomic += usize::from(frame.atomic);
        self.calls += usize::from(!frame.block);
        self.frames.push(frame);
    }

    /// Closes the innermost frame that matches and everything above it; nothing if none does.
    fn close(&mut self, matches: impl Fn(&OpenFrame) -> bool) {
        let Some(at) = self.frames.iter().rposition(matches) else {
            return;
        };
        for frame in self.frames.drain(at..) {
            self.atomic -= usize::from(frame.atomic);
            self.calls -= usize::from(!frame.block);
        }
    }
}
