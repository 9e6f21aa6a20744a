//! What a program is told of its functions while it runs: which of them are regions.
//!
//! The program asks for a call (`format::call`); the answer is the part of `events::calls` that
//! depends on nothing but the places of the call and of the function. What depends on the thread,
//! which function is its entry point, the program knows by itself.

use crate::format::{answer, call, region};
use crate::symbols::{Frame, Symbols};
use crate::whose::Options;
use atomsan_trace::Spec;
use atomsan_trace::spec::Atomic;
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher as _;
use std::rc::Rc;

/// Answers for a process.
#[derive(Debug)]
pub struct Answers {
    symbols: Symbols,
    options: Options,
    spec: Spec,
    not_atomic: HashSet<Rc<str>>,
}

/// 16 bits of a name.
fn hash(name: &str) -> u64 {
    FxBuildHasher.hash_one(name) >> 48
}

/// The function that a closure is written in, or the function itself.
fn written_in(name: &str) -> &str {
    name.split_once("::{").map_or(name, |(outer, _)| outer)
}

fn is_closure(name: &str) -> bool {
    name.contains("::{")
}

impl Answers {
    /// Answers for a process with these names.
    pub fn new(mut symbols: Symbols, options: Options, spec: Spec) -> Answers {
        let marked = symbols.not_atomic();
        let not_atomic = marked
            .into_iter()
            .filter_map(|place| {
                let frames = symbols.frames(place);
                let users = frames.iter().find(|frame| options.is_users(frame));
                users.or(frames.last()).map(|frame| frame.function.clone())
            })
            .collect();
        Answers {
            symbols,
            options,
            spec,
            not_atomic,
        }
    }

    /// From now on, these functions are regions.
    pub fn set_spec(&mut self, spec: Spec) {
        self.spec = spec;
    }

    fn atomic(&self, name: &str) -> Atomic {
        if self.not_atomic.contains(name) {
            Atomic::No
        } else {
            self.spec.decide(name)
        }
    }

    /// The user's functions that are inlined at a place, the outermost first.
    fn inlined(&mut self, place: u64) -> Vec<Rc<str>> {
        let frames = self.symbols.frames(place);
        let inlined = frames.iter().rev().skip(1);
        inlined
            .filter(|frame| self.options.is_users(frame))
            .map(|frame| frame.function.clone())
            .collect()
    }

    /// The region among the functions that are inlined at a call, by the kind of `format::region`.
    fn inlined_region(&self, inlined: &[Rc<str>], which: u64) -> Option<Rc<str>> {
        let outermost = inlined.first()?;
        let family = written_in(outermost);
        let sibling = |name: &str| is_closure(name) && written_in(name) == family;
        let mut candidates = inlined.iter().skip(usize::from(which == region::UNSET));
        candidates
            .find(|name| {
                self.atomic(name) != Atomic::No && (which == region::SET || !sibling(name))
            })
            .cloned()
    }

    /// Whether nothing is known of a call.
    pub fn is_unknown(&mut self, from: u64, function: u64) -> bool {
        let place = if function == call::PLACE {
            from
        } else {
            function
        };
        from & call::LABEL == 0 && self.symbols.frames(place).is_empty()
    }

    /// The function that is called.
    fn called(&mut self, function: u64) -> Rc<[Frame]> {
        if function == call::PLACE {
            Rc::default()
        } else {
            self.symbols.frames(function)
        }
    }

    /// What is said of a call: its answer and what is inlined there.
    pub fn answer(&mut self, from: u64, function: u64) -> (u64, u64) {
        if from & call::LABEL != 0 {
            let name = self.label(from, function);
            let said = match self.spec.decide(&name) {
                Atomic::No => answer::KNOWN,
                Atomic::Yes | Atomic::UnlessEntry => answer::KNOWN | answer::ATOMIC,
            };
            return (said, 0);
        }
        let mut said = answer::KNOWN;
        let (code, place) = (self.called(function), self.symbols.frames(from));
        let foreign = |frame: &Frame| self.options.is_foreign(frame);
        if place.iter().chain(code.last()).any(foreign) {
            said |= answer::FOREIGN;
        }
        if let Some(frame) = code.last().filter(|frame| self.options.is_users(frame)) {
            let name = &*frame.function;
            said |= answer::USER | hash(written_in(name)) << 16;
            said |= match self.atomic(name) {
                Atomic::No => 0,
                Atomic::UnlessEntry => answer::ATOMIC,
                Atomic::Yes => answer::ATOMIC | answer::ALWAYS,
            };
            if is_closure(name) {
                said |= answer::CLOSURE;
            }
        }
        let inlined = self.inlined(from);
        let mut names = 0;
        if let Some(outermost) = inlined.first() {
            said |= answer::INLINED;
            names |= hash(written_in(outermost));
            if is_closure(outermost) {
                said |= answer::INLINED_CLOSURE;
            }
            for (which, bit) in [
                (region::SET, answer::SET),
                (region::SIBLINGS, answer::SIBLINGS),
                (region::UNSET, answer::UNSET),
            ] {
                if let Some(name) = self.inlined_region(&inlined, which) {
                    said |= bit;
                    names |= hash(&name) << (16 * which);
                }
            }
        }
        (said, names)
    }

    fn label(&self, from: u64, len: u64) -> String {
        let address = from & !call::LABEL;
        let len = u16::try_from(len.saturating_sub(1)).unwrap_or(0);
        self.symbols
            .string_at(address, len)
            .unwrap_or_else(|| format!("region {address:#x}"))
    }

    /// The name of a region: a call, and which of its functions.
    pub fn name(&mut self, from: u64, function: u64, which: u64) -> Option<Rc<str>> {
        if from & call::LABEL != 0 {
            return Some(self.label(from, function).into());
        }
        if which == region::CALLED {
            let frames = self.symbols.frames(function);
            return frames.last().map(|frame| frame.function.clone());
        }
        let inlined = self.inlined(from);
        self.inlined_region(&inlined, which)
    }
}
