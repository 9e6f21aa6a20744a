//! What a program is told of its functions while it runs: which of them are regions.
//!
//! The program asks for a call (`format::call`); the answer is the part of `events::calls` that
//! depends on nothing but the places of the call and of the function. What depends on the thread,
//! which function is its entry point, the program knows by itself. Names are numbers to it.

use crate::format::{answer, call, inlined, plain};
use crate::models;
use crate::symbols::{Frame, Symbols};
use crate::whose::Options;
use atomsan_trace::Spec;
use atomsan_trace::spec::Atomic;
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;
use std::ops::Range;
use std::rc::Rc;

/// Answers for a process.
#[derive(Debug)]
pub struct Answers {
    symbols: Symbols,
    options: Options,
    spec: Spec,
    not_atomic: HashSet<Rc<str>>,
    numbers: Numbers,
    /// Return addresses at which nothing of the user's is inlined, as far as has been asked.
    plain: Vec<Range<u64>>,
    /// Whether nothing is in a function, by an address in it, as far as has been asked; `None` if nobody wants to know.
    plain_functions: Option<HashMap<u64, bool, FxBuildHasher>>,
}

/// The numbers that names have for the program, from 1.
#[derive(Debug, Default)]
pub struct Numbers {
    of: HashMap<Rc<str>, u64, FxBuildHasher>,
    names: Vec<Rc<str>>,
    /// How often a name got no number, because there were too many.
    refused: u64,
}

impl Numbers {
    /// The number of a name; 0 if there are too many.
    fn number(&mut self, name: &str) -> u64 {
        if let Some(&number) = self.of.get(name) {
            return number;
        }
        if self.names.len() == answer::NAMES {
            self.refused += 1;
            return 0;
        }
        let name: Rc<str> = name.into();
        self.names.push(Rc::clone(&name));
        let number = self.names.len() as u64;
        self.of.insert(name, number);
        number
    }

    /// The name with this number.
    pub fn name(&self, number: u64) -> Option<Rc<str>> {
        self.names.get(number.checked_sub(1)? as usize).cloned()
    }

    /// How often a name got no number, because there were too many.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

/// The function that a closure is written in, or the function itself.
fn written_in(name: &str) -> &str {
    name.split_once("::{").map_or(name, |(outer, _)| outer)
}

fn is_closure(name: &str) -> bool {
    name.contains("::{")
}

impl Answers {
    /// Answers for a process with these names, of which some may have numbers already.
    pub fn new(mut symbols: Symbols, options: Options, spec: Spec, numbers: Numbers) -> Answers {
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
            numbers,
            plain: Vec::new(),
            plain_functions: Some(HashMap::default()),
        }
    }

    /// The program logs nothing: in which functions nothing is inlined does not matter to it, and takes time to find out.
    #[must_use]
    pub fn without_plain_functions(mut self) -> Answers {
        self.plain_functions = None;
        self
    }

    /// The names of the process.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The numbers of names.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Gives the numbers of names to others, who answer in its place, and what has been read of the process's files.
    pub fn into_parts(self) -> (Numbers, Symbols) {
        (self.numbers, self.symbols)
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
        let frames = self.place(place);
        let inlined = frames.iter().rev().skip(1);
        inlined
            .filter(|frame| self.options.is_users(frame))
            .map(|frame| frame.function.clone())
            .collect()
    }

    /// The number of the region among the functions that are inlined at a call, of the kinds in
    /// `format::inlined`; 0 if there is none.
    fn inlined_region(&mut self, functions: &[Rc<str>], which: u32) -> u64 {
        let family = functions.first().map_or("", |name| written_in(name));
        let sibling = |name: &str| is_closure(name) && written_in(name) == family;
        let mut candidates = (functions.iter()).skip(usize::from(which == inlined::UNSET));
        let region = candidates.find(|name| {
            self.atomic(name) != Atomic::No && (which == inlined::SET || !sibling(name))
        });
        region.map_or(0, |name| self.numbers.number(name))
    }

    /// Whether nothing is known of a call.
    pub fn is_unknown(&mut self, from: u64, function: u64) -> bool {
        let place = if function == call::PLACE {
            from
        } else {
            function
        };
        let known = from & call::LABEL != 0 || self.symbols.is_tools(place);
        !known && self.symbols.frames(place).is_empty()
    }

    /// The functions at a place, as far as they can be anybody's. Most threads are started by the
    /// toolchain, and it takes long to find out by which of its functions.
    fn place(&mut self, place: u64) -> Rc<[Frame]> {
        if self.symbols.is_tools(place) {
            Rc::default()
        } else {
            self.symbols.frames(place)
        }
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
            return match self.spec.decide(&name) {
                Atomic::No => (answer::KNOWN, 0),
                Atomic::Yes | Atomic::UnlessEntry => {
                    (answer::KNOWN | self.region(&name, answer::ATOMIC), 0)
                }
            };
        }
        let mut said = answer::KNOWN;
        let (code, place) = (self.called(function), self.place(from));
        let foreign = |frame: &Frame| self.options.is_foreign(frame);
        if place.iter().chain(code.last()).any(foreign) {
            said |= answer::FOREIGN;
        }
        if let Some(frame) = code.last().filter(|frame| self.options.is_users(frame)) {
            let name = &*frame.function;
            said |= answer::USER | self.numbers.number(written_in(name)) << answer::FAMILY;
            said |= match self.atomic(name) {
                Atomic::No => 0,
                Atomic::UnlessEntry => self.region(name, answer::ATOMIC),
                Atomic::Yes => self.region(name, answer::ATOMIC | answer::ALWAYS),
            };
            if is_closure(name) {
                said |= answer::CLOSURE;
            }
        }
        if said & answer::ATOMIC == 0 && function != call::PLACE && self.is_plain(function) {
            said |= answer::PLAIN;
        }
        let loads_nothing = |frame: &Frame| models::loads_nothing(&frame.function);
        if function == call::PLACE && place.iter().any(loads_nothing) {
            said |= answer::NOTHING;
        }
        let functions = self.inlined(from);
        let mut names = 0;
        if function == call::PLACE && functions.is_empty() {
            names = self.plain(from);
        } else if let Some(outermost) = functions.first() {
            said |= answer::INLINED;
            names |= self.numbers.number(written_in(outermost)) << inlined::FAMILY;
            if is_closure(outermost) {
                said |= answer::INLINED_CLOSURE;
            }
            for which in [inlined::SET, inlined::SIBLINGS, inlined::UNSET] {
                names |= self.inlined_region(&functions, which) << which;
            }
        }
        (said, names)
    }

    /// How far around a place nothing of the user's is inlined, as in `format::plain`.
    fn plain(&mut self, place: u64) -> u64 {
        let known = self.plain.iter().find(|plain| plain.contains(&place));
        let plain = known.cloned().or_else(|| {
            let is_users = |file: &str| self.options.is_in_users_file(file);
            // Of the toolchain's own code, nothing is read.
            let is_tools = self.symbols.is_tools(place);
            (!is_tools).then(|| self.symbols.around(place, is_users))?
        });
        let Some(plain) = plain else { return 0 };
        if known.is_none() {
            self.plain.push(plain.clone());
        }
        let distance = |from: u64, to: u64| u64::from(u32::try_from(to - from).unwrap_or(0));
        distance(plain.start, place) << plain::BEFORE | distance(place, plain.end) << plain::AFTER
    }

    /// Whether nothing of the user's is inlined anywhere in a function.
    fn is_plain(&mut self, function: u64) -> bool {
        let (symbols, options) = (&self.symbols, &self.options);
        let is_users = |file: &str| options.is_in_users_file(file);
        let read = || !symbols.is_tools(function) && symbols.has_nothing(function, is_users);
        let known = self.plain_functions.as_mut();
        known.is_some_and(|known| *known.entry(function).or_insert_with(read))
    }

    /// What is said of a function that is a region, with these bits; what has no number is none.
    fn region(&mut self, name: &str, bits: u64) -> u64 {
        match self.numbers.number(name) {
            0 => 0,
            number => bits | number << answer::REGION,
        }
    }

    fn label(&self, from: u64, len: u64) -> String {
        let address = from & !call::LABEL;
        let len = u16::try_from(len.saturating_sub(1)).unwrap_or(0);
        self.symbols
            .string_at(address, len)
            .unwrap_or_else(|| format!("region {address:#x}"))
    }
}
