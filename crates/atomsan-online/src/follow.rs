//! Following a program while it runs, in one of three ways: the first of two runs ([`First`]), a
//! single run or a second one ([`Single`]), or all events for engines that work on a stream
//! ([`Streaming`]).
//!
//! In the last, a log is followed as far as it has been written; an edge that leads out of another
//! log makes that one be followed first (as in `atomsan_recording::order`).

use crate::first::First;
use crate::live::Live;
use crate::questions::Questions;
use crate::single::Single;
use crate::stream::{Make, Streaming};
use atomsan_engines::checker::Checker;
use atomsan_engines::demotion::Demotion;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_engines::doublechecker::{self, DoubleChecker};
use atomsan_engines::engine::Stat;
use atomsan_recording::Recording;
use atomsan_recording::file::{Counters, Piece, Record};
use atomsan_recording::format::{CHUNK_UNIT, Kind, MANY_CHUNKS, header};
use atomsan_recording::symbols::Symbols;
use atomsan_trace::{Names, Spec};
use std::io;
use std::path::Path;
use std::time::Instant;

/// How many records are followed before somebody may look at what was found, more or less.
const AT_ONCE: u64 = 1 << 20;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose functions are regions.
    pub recording: atomsan_recording::Options,
    /// Which functions are expected to be atomic.
    pub spec: Spec,
    /// How many bytes of logs may be kept where all events are given to engines.
    pub memory: usize,
    /// How many bytes of logs there may be in a single run.
    pub logs: usize,
    /// How many transactions a component may have before everything is forgotten.
    pub component_limit: usize,
    /// Whether this is a first run: the logs have nothing but edges, and components are not checked
    /// but told ([`Follower::static_info`]).
    pub first_run: bool,
    /// Whether everything that was read is kept, for [`Follower::recording`].
    pub keep_all: bool,
    /// Whether functions that were found not to be atomic are taken as such from then on, so that
    /// what they contain is checked by itself.
    pub demote: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            recording: atomsan_recording::Options::default(),
            spec: Spec::default(),
            memory: 256 << 20,
            logs: MANY_CHUNKS * CHUNK_UNIT,
            component_limit: 256,
            first_run: false,
            keep_all: false,
            demote: true,
        }
    }
}

/// How soon the program should be looked at again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Haste {
    /// There was nothing new.
    Later,
    /// There was something new.
    Soon,
    /// Somebody may be waiting.
    Now,
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// What the runtime counted.
    pub counters: Counters,
    /// Records that were read.
    pub records: u64,
    /// Records that were forgotten because they did not fit into the budget.
    pub forgotten: u64,
    /// Calls and functions that counted as no region, because there were too many.
    pub unasked: u64,
}

/// All that was read of a slot, for the tests.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pieces: Vec<(usize, u64, Vec<u64>)>,
    /// How far each slot has been read.
    ends: Vec<u64>,
}

impl Kept {
    pub(crate) fn keep(&mut self, slot: usize, start: u64, words: &[u64]) {
        if self.ends.len() <= slot {
            self.ends.resize(slot + 1, 0);
        }
        if self.ends[slot] <= start {
            self.ends[slot] = start + 8 * words.len() as u64;
            self.pieces.push((slot, start, words.to_vec()));
        }
    }
}

/// The check of a program that is running.
pub struct Follower {
    options: Options,
    live: Live,
    maps: String,
    pub(crate) checker: Checker,
    kept: Kept,
    records: u64,
    first: Option<First>,
    single: Option<Single>,
    pub(crate) demotion: Demotion,
    /// If other engines check than the one for components: all events, as they come.
    pub(crate) streaming: Option<Streaming>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

pub(crate) fn engine() -> Vec<Box<dyn atomsan_engines::Engine>> {
    vec![Box::new(DoubleChecker::new(
        doublechecker::Options::default(),
    ))]
}

impl Follower {
    /// Follows the recording in a file; `None` if there is nothing in it yet. The program must write
    /// down its transactions (`ATOMSAN_LOGS`), unless all events are given to
    /// [engines](Follower::with_engines).
    pub fn open(path: &Path, options: Options) -> io::Result<Option<Follower>> {
        let Some(live) = Live::open(path)? else {
            return Ok(None);
        };
        Ok(Some(Follower {
            checker: Checker::new(Names::new(options.spec.clone()), engine(), false),
            first: options.first_run.then(First::default),
            single: (!options.first_run).then(Single::default),
            options,
            live: live.of_links(),
            maps: String::new(),
            kept: Kept::default(),
            records: 0,
            demotion: Demotion::default(),
            streaming: None,
        }))
    }

    /// Gives all events to engines that `make` makes, instead of components to one.
    #[must_use]
    pub fn with_engines(mut self, make: Make) -> Follower {
        let names = Names::new(self.options.spec.clone());
        self.checker = Checker::new(names, make(), false);
        self.streaming = Some(Streaming::new(make));
        self.single = None;
        self.live = self.live.of_everything();
        self
    }

    /// Takes what has been read of the program's files already.
    pub fn knows(&mut self, ahead: Symbols) {
        let single = self.single.as_mut().map(|single| &mut single.questions);
        let first = self.first.as_mut().map(|first| &mut first.questions);
        if let Some(questions) = first.or(single) {
            questions.knows(ahead);
        }
    }

    /// Whether all that is read is kept, to be compared with a recording.
    pub(crate) fn keeps_all(&self) -> bool {
        self.options.keep_all
    }

    /// Whether all events are given to engines.
    pub fn is_streaming(&self) -> bool {
        self.streaming.is_some()
    }

    /// What was found before the check started over, because there were too many variables; each
    /// is given once.
    pub fn take_chapters(&mut self) -> Vec<Checker> {
        let streaming = self.streaming.as_mut();
        streaming.map_or_else(Vec::new, Streaming::take_chapters)
    }

    /// Functions that were found not to be atomic are taken as such from now on.
    pub(crate) fn demote(&mut self) {
        if !self.options.demote {
            return;
        }
        let stream = self.streaming.as_ref().and_then(Streaming::stream);
        self.demotion.demote(&mut self.checker, 0, |function| {
            stream.is_some_and(|stream| stream.has_callees(function))
        });
    }

    /// Answers what the program has asked, and does nothing else: it waits. Whether it has asked anything.
    pub fn answer(&mut self) -> io::Result<bool> {
        let single = self.single.as_mut().map(|single| &mut single.questions);
        let first = self.first.as_mut().map(|first| &mut first.questions);
        match first.or(single) {
            Some(questions) => questions.answer(&self.live, &self.options),
            None => Ok(false),
        }
    }

    /// Follows the program as far as it is now.
    pub fn advance(&mut self) -> io::Result<Haste> {
        if let Some(first) = &mut self.first {
            return first.advance(&mut self.live, &self.options);
        }
        if let Some(single) = &mut self.single {
            let (live, checker) = (&mut self.live, &mut self.checker);
            return single.advance(live, checker, &mut self.kept, &self.options);
        }
        let before = self.records;
        self.live.look()?;
        // Chunks have positions in the order in which they were handed out, so what is furthest
        // behind is about the oldest.
        while let Some(slot) = (1..self.live.slots())
            .filter(|&slot| self.live.has_more(slot))
            .min_by_key(|&slot| self.live.position(slot))
            .filter(|_| self.records - before < AT_ONCE)
        {
            let before = self.live.position(slot);
            self.follow(slot)?;
            if self.live.position(slot) == before {
                break;
            }
        }
        self.stream_on(Instant::now());
        Ok(if self.records > before {
            Haste::Now
        } else {
            Haste::Later
        })
    }

    /// The program has ended, and so do all transactions that are open.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(first) = &mut self.first {
            return first.finish(&mut self.live, &self.options);
        }
        if let Some(single) = &mut self.single {
            let (live, checker) = (&mut self.live, &mut self.checker);
            return single.finish(live, checker, &mut self.kept, &self.options);
        }
        while self.advance()? == Haste::Now {}
        self.finish_stream();
        Ok(())
    }

    /// Follows a log, and others as far as its edges ask for.
    fn follow(&mut self, slot: usize) -> io::Result<()> {
        let mut following = vec![(slot, u64::MAX)];
        while let Some(&(slot, until)) = following.last() {
            match self.run(slot, until)? {
                None => {
                    following.pop();
                    // A log that ends before an edge out of it was damaged.
                    let short = until != u64::MAX && self.live.position(slot) < until;
                    if let Some(&(waits, _)) = following.last().filter(|_| short) {
                        self.skip(waits)?;
                    }
                }
                Some((from, position)) => {
                    let circle = following.iter().any(|&(slot, _)| slot == from);
                    if from < self.live.slots() {
                        self.live.look_at(from)?;
                    } else {
                        // It has started since.
                        self.live.look()?;
                    }
                    if circle || from >= self.live.slots() {
                        // No edge of the runtime is like that.
                        self.skip(slot)?;
                    } else {
                        following.push((from, position));
                    }
                }
            }
        }
        Ok(())
    }

    /// Passes over an edge that cannot be followed.
    fn skip(&mut self, slot: usize) -> io::Result<()> {
        let (words, at, _) = self.live.take(slot)?;
        let after = (at + Kind::Edge.words()).min(words.len());
        self.live.put(slot, words, after);
        Ok(())
    }

    /// Runs through a log until a position, or through what is at hand of it; or until another one
    /// has to be followed to a position.
    fn run(&mut self, slot: usize, until: u64) -> io::Result<Option<(usize, u64)>> {
        loop {
            let (words, mut at, start) = self.live.take(slot)?;
            if at >= words.len() {
                self.live.put(slot, words, at);
                return Ok(None);
            }
            let stream = self.streaming.as_ref().and_then(Streaming::stream);
            if stream.is_none() {
                self.maps = self.live.maps()?;
                let symbols = Symbols::of_maps(std::iter::once(&*self.maps));
                let options = self.options.recording.clone();
                if let Some(streaming) = &mut self.streaming {
                    streaming.start(symbols, options, self.options.memory);
                }
            }
            if self.options.keep_all && at == 0 {
                self.kept.keep(slot, start, &words);
            }
            let mut waits = None;
            while let Some(record) = Record::parse(&words[at..], start + 8 * at as u64) {
                if record.position >= until {
                    self.live.put(slot, words, at);
                    return Ok(None);
                }
                let len = record.kind.words();
                if record.kind == Kind::Edge {
                    let (from, position) = (record.second as usize, record.subject);
                    if self.live.position(from) < position {
                        waits = Some((from, position));
                        break;
                    }
                }
                self.records += 1;
                if let Some(streaming) = &mut self.streaming {
                    streaming.push(slot, &record);
                }
                at += len;
            }
            if waits.is_none() {
                at = words.len();
            }
            self.live.put(slot, words, at);
            self.stream_what_is_due();
            if waits.is_some() || until == u64::MAX {
                return Ok(waits);
            }
        }
    }

    /// What a first run tells the second.
    pub fn static_info(&self) -> StaticInfo {
        let first = self.first.as_ref();
        first.map(|first| first.found.clone()).unwrap_or_default()
    }

    /// What has been found so far.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    fn questions(&self) -> Option<&Questions> {
        let first = self.first.as_ref().map(|first| &first.questions);
        first.or(self.single.as_ref().map(|single| &single.questions))
    }

    /// What has been seen so far.
    pub fn summary(&self) -> Summary {
        let counter = |offset| self.live.counter(offset);
        Summary {
            counters: Counters {
                pid: counter(header::PID),
                threads: counter(header::THREADS),
                dropped: counter(header::DROPPED),
                unseen_threads: counter(header::UNSEEN_THREADS),
                interrupted: counter(header::INTERRUPTED),
                window: counter(header::SHADOW),
                exited: counter(header::EXITED) != 0,
            },
            records: match (&self.first, &self.single) {
                (Some(first), _) => first.links.edges,
                (_, Some(single)) => single.links.edges,
                _ => self.records,
            },
            forgotten: self.single.as_ref().map_or(0, Single::forgotten),
            unasked: self.questions().map_or(0, |questions| {
                counter(header::UNASKED) + questions.refused()
            }),
        }
    }

    /// What was counted.
    pub fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        let waits = stat("waits of the program", self.live.counter(header::WAITS));
        if let Some(First { links, .. }) = &self.first {
            let (edges, components) = (links.edges, links.components);
            return vec![
                stat("IDG edges", edges),
                stat("ICD SCCs", components),
                waits,
            ];
        }
        if let Some(single) = &self.single {
            return vec![
                stat("records of components", single.records),
                stat("IDG edges", single.links.edges),
                stat("ICD SCCs", single.links.components),
                stat("PCD events", self.checker.events()),
                waits,
            ];
        }
        let engines = self.checker.runs().iter();
        engines.flat_map(|run| run.engine.stats()).collect()
    }

    /// All that was read, with [`Options::keep_all`]: the recording that would have been made.
    pub fn recording(&self) -> Recording {
        let pieces = self.kept.pieces.iter();
        Recording::of_pieces(
            pieces.map(|(slot, position, words)| Piece {
                slot: *slot,
                position: *position,
                previous: 0,
                snapshot: &[],
                words,
            }),
            self.maps(),
        )
    }

    /// The memory map of the process.
    pub fn maps(&self) -> &str {
        match (&self.first, &self.single) {
            (Some(first), _) => first.questions.maps(),
            (_, Some(single)) => single.questions.maps(),
            _ => &self.maps,
        }
    }
}
