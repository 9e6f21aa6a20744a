//! Following calls: which functions a thread is in, which of them are the user's, and what is known
//! of a place in them.
//!
//! # Calls
//!
//! All calls of a thread are followed, but only the user's functions become `Enter` and `Exit`:
//! the rest is how they work. The place of an event is the nearest line of the user's code, be it
//! inlined or a caller. The chains of calls form a tree ([`Node`]), so that what is known of a
//! program counter in a chain is worked out once.
//!
//! A function in which nothing happens that engines see is left out: its `Enter` waits until something does.
//! Nearly all functions are of that kind where most memory is handed over ([`crate::handover`]).
//!
//! # Inlined functions
//!
//! Nothing in the recording tells where an inlined function starts and ends, but the line tables
//! tell which inlined functions a program counter is in. So an inlined function of the user's is
//! entered with its first event, and left with the first event that is not in it, or that is on an
//! earlier line than the last, or that repeats one of its events (the same operation on the same
//! address at the same place of the source): then a loop has brought the thread back, and this may
//! be another call. What is missed by that
//! are regions that loop inside; the aim is not to take two calls for one.
//!
//! # Entry points
//!
//! The bottom-most function of a thread is not expected to be atomic (the default of
//! `atomsan_trace::spec`), nor are the closures written in it, which are left out: they are part of
//! it. If somebody else's function called it (only the functions of one package are looked at, say, or a
//! package that starts threads calls back), then that function is the entry point, with those closures of
//! the user's that it calls: they are what it was given to run. Rust's test harness calls `test::{{closure}}`, which calls `test`: that closure is left out
//! too, so that the test is the entry point.
//!
//! # Call-backs
//!
//! A library of synchronisation may call the user's code back while it holds a lock of its own, which is hidden with
//! the rest of it. What is done there is done under that lock.

use super::{Call, Event, Inlined, Node, Op, Place, ROOT, Thread, Translator};
use crate::file::Record;
use crate::format::FRAME_UNIT;
use crate::models::{self, Family};
use crate::symbols::Frame;
use atomsan_trace::{FunctionId, SiteId};
use std::rc::Rc;

/// An address in a function of which nothing is known.
const UNNAMED: u64 = 0;

/// The lock of whoever [calls back](models::calls_back) under one. Which of its locks that is, is not known:
/// it is one for all, as if it were here.
const CALLING_BACK: u64 = 8;

/// Whether a function is a closure, in either way of writing its name: `f::{{closure}}`,
/// `f::{closure#0}`.
fn is_closure(function: &str) -> bool {
    function.contains("::{")
}

/// The function that a closure is written in.
fn written_in(function: &str) -> &str {
    function
        .split_once("::{")
        .map_or(function, |(outer, _)| outer)
}

impl Translator {
    /// The place in the source that a program counter is at, as a number.
    pub(super) fn location(&mut self, pc: u64) -> u32 {
        let next = self.locations.len() as u32;
        let frames = self.symbols.frames(pc);
        *self.locations.entry(frames).or_insert(next)
    }

    /// What is known of a program counter in a chain of calls.
    pub(super) fn place(&mut self, chain: u32, pc: u64) -> Place {
        if let Some(&place) = self.places.get(&(chain, pc)) {
            return place;
        }
        let frames = self.symbols.frames(pc);
        let users = frames.iter().position(|frame| self.options.is_users(frame));
        let below = &frames[..users.unwrap_or(frames.len())];
        let family = below
            .iter()
            .rev()
            .find_map(|frame| self.options.models.family(&frame.function));
        let known = |frame: &Frame| self.options.models.step(&frame.function);
        let step = Option::zip(
            below.iter().find_map(known),
            below.iter().rev().find_map(known),
        );
        let location = self.location(pc);
        let waits = below
            .iter()
            .any(|frame| self.options.models.waits(&frame.function));
        let scopes = below.iter().any(|frame| models::scopes(&frame.function));
        let attempts = below.iter().any(|frame| models::attempts(&frame.function));
        let calls_back = below
            .iter()
            .any(|frame| models::calls_back(&frame.function));
        let runs_task = below.iter().any(|frame| models::runs_task(&frame.function));
        // The outermost function decides: a table that takes something has its own reasons.
        let takes = below
            .last()
            .is_some_and(|frame| models::takes(&frame.function));
        let precompiled = family.is_some_and(Family::is_of_std) && !self.is_called(chain, &frames);
        let place = match users {
            Some(at) => Place {
                site: self.site(&frames[at..]),
                family,
                step,
                inlined: self.inlined_at(chain, &frames),
                line: frames[at].line,
                location,
                waits,
                scopes,
                attempts,
                calls_back,
                runs_task,
                takes,
                precompiled,
            },
            None => {
                let Node {
                    place: caller,
                    caller: (_, call),
                    ..
                } = self.nodes[chain as usize];
                let called_at = self.symbols.frames(call);
                let by_users = called_at
                    .first()
                    .is_some_and(|at| self.options.is_users(at));
                Place {
                    site: if caller.site == SiteId::UNKNOWN {
                        self.site(&frames)
                    } else {
                        caller.site
                    },
                    family: caller.family.or(family),
                    step: match (step, caller.step) {
                        (Some((inner, _)), Some((_, outer))) => Some((inner, outer)),
                        (step, caller) => step.or(caller),
                    },
                    inlined: 0,
                    line: 0,
                    location,
                    waits: waits || caller.waits,
                    scopes: scopes || caller.scopes,
                    attempts: attempts || caller.attempts,
                    calls_back: calls_back || caller.calls_back,
                    runs_task: runs_task || caller.runs_task,
                    takes: caller.takes || by_users && takes,
                    precompiled,
                }
            }
        };
        self.places.insert((chain, pc), place);
        place
    }

    /// Whether frames are in the function that was called last. Otherwise they are in one that does not
    /// say when it is called: it is not instrumented.
    fn is_called(&mut self, chain: u32, frames: &[Frame]) -> bool {
        let Node { code, .. } = self.nodes[chain as usize];
        let called = self.symbols.frames(code);
        let function = |frames: &[Frame]| frames.last().map(|frame| Rc::clone(&frame.function));
        chain != ROOT && (code == UNNAMED || function(frames) == function(&called))
    }

    /// The user's functions among the frames that are inlined into the last one.
    /// They are called from the nearest line of the user's code, as everything is.
    pub(super) fn inlined_at(&mut self, chain: u32, frames: &[Frame]) -> u32 {
        let caller = self.nodes[chain as usize].place.site;
        let mut inlined = Vec::new();
        for (at, frame) in frames.iter().enumerate().rev().skip(1) {
            if self.options.is_users(frame) {
                let function = self.function(&frame.function);
                let outer = &frames[at + 1..];
                let users = outer.iter().position(|frame| self.options.is_users(frame));
                let callers = &outer[..users.unwrap_or(outer.len())];
                let called_back = callers
                    .iter()
                    .any(|frame| models::calls_back(&frame.function));
                let site = match users {
                    Some(at) => self.site(&outer[at..]),
                    None if caller != SiteId::UNKNOWN => caller,
                    None => self.site(outer),
                };
                inlined.push((function, site, called_back));
            }
        }
        if inlined.is_empty() {
            return 0;
        }
        let next = self.inlined.len() as u32;
        let id = *self.inlined_ids.entry(inlined.clone()).or_insert(next);
        if id == next {
            self.inlined.push(inlined);
        }
        id
    }

    pub(super) fn node(&mut self, chain: u32, call: u64, code: u64) -> u32 {
        if let Some(&node) = self.children.get(&(chain, call, code)) {
            return node;
        }
        // The last frame is the function itself.
        let function = match self.symbols.frames(code).last() {
            Some(frame) if self.options.is_users(frame) => {
                let name = frame.function.clone();
                Some(self.function(&name))
            }
            _ => None,
        };
        let place = self.place(chain, call);
        let foreign = self.nodes[chain as usize].foreign.or_else(|| {
            let (call, code) = (self.symbols.frames(call), self.symbols.frames(code));
            let frames = call.iter().rev().chain(code.last());
            let foreign = frames
                .into_iter()
                .find(|frame| self.options.is_foreign(frame))?;
            Some(self.function(&foreign.function))
        });
        // Nobody asks for what is below a line of the user's.
        let frames = self.symbols.frames(call);
        let outer = match frames.iter().any(|frame| self.options.is_users(frame)) {
            true => ROOT,
            false => chain,
        };
        let node = self.node_id(Node {
            function,
            place,
            foreign,
            code,
            caller: (outer, call),
        });
        self.children.insert((chain, call, code), node);
        node
    }

    fn node_id(&mut self, node: Node) -> u32 {
        let next = self.nodes.len() as u32;
        let id = *self.node_ids.entry(node).or_insert(next);
        if id == next {
            self.nodes.push(node);
        }
        id
    }

    pub(super) fn enter(&mut self, slot: usize, record: &Record) {
        let chain = self.calls(slot);
        let node = self.node(chain, record.subject, record.pc());
        let Node {
            function, place, ..
        } = self.nodes[node as usize];
        self.settle(slot, place, record);
        let called_back = place.calls_back && function.is_some();
        if let Some(function) = function {
            self.announce(slot, node, function, place.site);
        }
        if called_back {
            self.call_back(slot, place.site);
        }
        let thread = &mut self.threads[slot];
        let distance = FRAME_UNIT * (record.second >> 48);
        thread.stack.push(Call {
            node,
            frame: match distance {
                0 => 0,
                distance => thread.stack_end.saturating_sub(distance),
            },
            called_back,
            ..Call::default()
        });
    }

    /// Functions that nothing is known of are on the stack, because there were too many.
    pub(super) fn unnamed(&mut self, slot: usize, count: u64) {
        let node = self.calls(slot);
        let node = self.node_id(Node {
            function: None,
            code: UNNAMED,
            ..self.nodes[node as usize]
        });
        if let Some(more) = count.checked_sub(1) {
            self.threads[slot].stack.push(Call {
                node,
                unnamed: more,
                ..Call::default()
            });
        }
    }

    /// A function of the user's is entered.
    pub(super) fn announce(&mut self, slot: usize, node: u32, function: FunctionId, site: SiteId) {
        let foreign = self.nodes[node as usize].foreign;
        if let (None, Some(entry)) = (self.threads[slot].entry, foreign) {
            self.turn(slot);
            let thread = &mut self.threads[slot];
            thread.entry = Some(entry);
            thread.open.push(Some(entry));
            thread.entering.push(Event {
                thread: thread.id,
                site: SiteId::UNKNOWN,
                op: Op::Enter(entry),
            });
        }
        let thread = &mut self.threads[slot];
        let event = Event {
            thread: thread.id,
            site,
            op: Op::Enter(function),
        };
        let name = &self.function_names[function.index()];
        thread.open.push(Some(function));
        if thread.open.len() == 2 {
            thread.touched.clear();
        }
        match thread.entry {
            // It may be a test's closure, and not the entry point itself.
            None => {
                thread.entry = Some(function);
                thread.held_back = true;
                thread.entering.push(event);
                return;
            }
            Some(_) if self.annotations.not_atomic.contains(name) => {
                if let Some(open) = thread.open.last_mut() {
                    *open = None;
                }
                return;
            }
            Some(entry) => {
                let entry = &self.function_names[entry.index()];
                if thread.held_back && is_closure(entry) && written_in(entry) == &**name {
                    thread.entry = Some(function);
                    thread.entering.clear();
                } else if is_closure(name)
                    && (written_in(name) == written_in(entry)
                        || foreign == thread.entry && thread.open.len() == 2)
                {
                    if let Some(open) = thread.open.last_mut() {
                        *open = None;
                    }
                    return;
                }
            }
        }
        self.turn(slot);
        let thread = &mut self.threads[slot];
        thread.held_back = false;
        thread.entering.push(event);
    }

    /// The thread enters or leaves a function of the user's: what it was about to do is done.
    fn turn(&mut self, slot: usize) {
        self.threads[slot].attempting = false;
        self.catch_up(slot);
    }

    /// The innermost function of the user's is left.
    pub(super) fn conclude(&mut self, slot: usize) {
        self.turn(slot);
        let thread = &mut self.threads[slot];
        let left = thread.open.pop();
        while thread.blocks.pop_if(|at| *at > thread.open.len()).is_some() {}
        if thread.open.is_empty() {
            thread.entry = None;
        }
        if let Some(Some(function)) = left
            && thread.entering.pop().is_none()
        {
            self.emit(slot, SiteId::UNKNOWN, Op::Exit(function));
        }
    }

    pub(super) fn exit(&mut self, slot: usize) {
        let stack = &mut self.threads[slot].stack;
        let Some(mut call) = stack.pop() else {
            return;
        };
        if let Some(more) = call.unnamed.checked_sub(1) {
            call.seen.clear();
            let inlined = std::mem::take(&mut call.inlined);
            stack.push(Call {
                unnamed: more,
                ..call
            });
            return self.leave_inlined(slot, inlined, 0);
        }
        self.leave_inlined(slot, call.inlined, 0);
        let Thread {
            stack,
            initialising,
            ..
        } = &mut self.threads[slot];
        while (initialising.pop_if(|&mut (_, calls)| calls > stack.len())).is_some() {}
        if call.called_back {
            self.return_to_caller(slot);
        }
        if self.nodes[call.node as usize].function.is_some() {
            self.conclude(slot);
        }
    }

    /// A function is called back, under a lock of the caller's own.
    fn call_back(&mut self, slot: usize, site: SiteId) {
        let lock = self.lock_called(CALLING_BACK, "lock of a library that calls back");
        self.emit(slot, site, Op::Acquire(lock));
    }

    /// A function that was called back, under a lock of the caller's own, is over.
    pub(super) fn return_to_caller(&mut self, slot: usize) {
        let lock = self.lock_called(CALLING_BACK, "lock of a library that calls back");
        self.emit(slot, SiteId::UNKNOWN, Op::Release(lock));
    }

    /// Leaves inlined functions, the innermost first, until `keep` are left.
    pub(super) fn leave_inlined(&mut self, slot: usize, inlined: u32, keep: usize) {
        for at in (keep..self.inlined[inlined as usize].len()).rev() {
            let (_, _, called_back) = self.inlined[inlined as usize][at];
            if called_back {
                self.return_to_caller(slot);
            }
            self.conclude(slot);
        }
    }

    /// Enters and leaves inlined functions so that the thread is in those of a place.
    pub(super) fn settle(&mut self, slot: usize, place: Place, record: &Record) {
        let Some(call) = self.threads[slot].stack.last_mut() else {
            return;
        };
        let was = call.inlined;
        if was == 0 && place.inlined == 0 {
            return;
        }
        let operation = (place.location, record.kind as u8, record.subject);
        let back = was == place.inlined && place.line < call.line;
        let again = back || call.seen.contains(&operation);
        call.line = place.line;
        if again || was == 0 {
            call.seen.clear();
        }
        call.seen.insert(operation);
        call.inlined = place.inlined;
        if was == place.inlined && !again {
            return;
        }
        let (old, new) = (
            &self.inlined[was as usize],
            &self.inlined[place.inlined as usize],
        );
        let same = old
            .iter()
            .zip(new)
            .take_while(|(old, new)| old == new)
            .count();
        // A function with a region in it is not left before the region ends.
        let thread = &self.threads[slot];
        let below = thread.open.len().saturating_sub(old.len());
        let held = thread
            .blocks
            .last()
            .map_or(0, |&at| at.saturating_sub(below))
            .min(same);
        let keep = if again { held } else { same };
        self.leave_inlined(slot, was, keep);
        for at in keep..self.inlined[place.inlined as usize].len() {
            let (function, site, called_back) = self.inlined[place.inlined as usize][at];
            self.announce(slot, self.calls(slot), function, site);
            if called_back {
                self.call_back(slot, site);
            }
        }
    }

    /// Whether a function of the user's is seen to call others of the user's, inlined or not.
    pub fn has_callees(&self, function: FunctionId) -> bool {
        let is = |node: u32| self.nodes[node as usize].function == Some(function);
        let mut calls: Vec<(u32, u32)> = (self.children.iter())
            .map(|(&(chain, ..), &node)| (chain, node))
            .collect();
        calls.sort_unstable();
        let mut inside = vec![false; self.nodes.len()];
        let mut left: Vec<u32> = (0..self.nodes.len() as u32)
            .filter(|&node| is(node))
            .collect();
        while let Some(chain) = left.pop() {
            let from = calls.partition_point(|&(outer, _)| outer < chain);
            let called = calls[from..]
                .iter()
                .take_while(|&&(outer, _)| outer == chain);
            for &(_, node) in called {
                if self.nodes[node as usize].function.is_some() {
                    return true;
                }
                if !std::mem::replace(&mut inside[node as usize], true) {
                    left.push(node);
                }
            }
        }
        let inlined_there = |(&(chain, _), place): (&(u32, u64), &Place)| {
            place.inlined != 0 && (is(chain) || inside[chain as usize])
        };
        let inlined_into = |chain: &Vec<Inlined>| {
            let at = chain.iter().position(|&(inlined, ..)| inlined == function);
            at.is_some_and(|at| at + 1 < chain.len())
        };
        self.places.iter().any(inlined_there) || self.inlined.iter().any(inlined_into)
    }

    pub(super) fn calls(&self, slot: usize) -> u32 {
        self.threads[slot]
            .stack
            .last()
            .map_or(ROOT, |call| call.node)
    }
}
