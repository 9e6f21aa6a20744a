//! A recording as events, with the names they use.
//!
//! The records come in a legal order ([`crate::order`]). What is added here is meaning: which
//! functions are the user's, so that they become regions; which atomic operations are locks
//! ([`crate::models`]); which bytes are variables ([`crate::cells`]); what everything is called
//! ([`crate::symbols`]).
//!
//! The [`Translator`] is what is known while the records go by. What each record means to it is in
//! [`meaning`], what it then says in [`said`]; calls are followed in [`calls`]; how often it goes
//! over a recording, and what for, is in [`passes`].

mod annotations;
mod calls;
mod claims;
mod cuts;
mod decisions;
mod looks;
mod meaning;
mod naming;
mod origins;
mod owners;
mod passes;
mod said;
mod sections;
mod stream;
#[cfg(test)]
mod tests;
mod waits;

use crate::cells::Cells;
use crate::file::Record;
use crate::format::Kind;
use crate::handover::Survey;
use crate::models::{Change, Family, Step};
use crate::positions::Positions;
use crate::symbols::{Frame, Symbols};
use crate::whose::Options;
use annotations::Annotations;
use atomsan_trace::names::{self, Definition};
use atomsan_trace::{Batch, Event, FunctionId, LockId, Op, SiteId, ThreadId, VarId};
use claims::{Blind, Claims};
use cuts::Cuts;
use decisions::Decisions;
use hashbrown::{HashMap, HashSet};
use looks::{Looks, Repeated};
use naming::Naming;
use origins::Nameless;
pub use origins::{Named, Origin};
use owners::Owners;
pub use passes::Events;
use passes::Findings;
use rustc_hash::FxBuildHasher;
use sections::Sections;
use std::collections::BTreeMap;
use std::rc::Rc;
pub use stream::Stream;
use waits::{Awaited, Taken, Waits};

type FxMap<K, V> = HashMap<K, V, FxBuildHasher>;

/// A chain of calls: a function on top of another chain. Chains that nothing tells apart are the same
/// one, so there are no more of them than places in the program, however deep it recurses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Node {
    /// The function, if it is the user's.
    function: Option<FunctionId>,
    /// Where in the user's code the chain is, and what synchronisation it is in.
    place: Place,
    /// The outermost function of the chain that is neither the user's nor the toolchain's.
    foreign: Option<FunctionId>,
    /// An address in the function.
    code: u64,
    /// Where it was called: the chain, and the return address.
    caller: (u32, u64),
}

/// What is known of a place in a chain of calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Place {
    site: SiteId,
    family: Option<Family>,
    /// The innermost and the outermost function of a lock that it is in, of those known by name.
    step: Option<(Step, Step)>,
    /// The user's functions that are inlined there: an index into the table of these.
    inlined: u32,
    /// The line in the user's code.
    line: u32,
    /// The place in the source, with everything that is inlined.
    location: u32,
    /// Whether it is in a function that waits for other threads ([`waits`](crate::models::waits)).
    waits: bool,
    /// Whether it is in a function that deals with a scope of threads ([`scopes`](crate::models::scopes)).
    scopes: bool,
    /// Whether it takes several locks, in any order ([`attempts`](crate::models::attempts)).
    attempts: bool,
    /// Whether it is in a function that calls back under a lock of its own
    /// ([`calls_back`](crate::models::calls_back)).
    calls_back: bool,
    /// Whether it is in a function that runs a task under a guard of its own ([`runs_task`](crate::models::runs_task)).
    runs_task: bool,
    /// Whether it is in a function that the user's code has called to take what is there
    /// ([`takes`](crate::models::takes)).
    takes: bool,
    /// Whether it is in the precompiled part of Rust's standard library.
    precompiled: bool,
}

/// A function of the user's that is inlined: the function, where it is called, and whether it is called back
/// under a lock of the caller's own.
type Inlined = (FunctionId, SiteId, bool);

/// An operation, for finding out that it is repeated: its place, kind and subject.
type Operation = (u32, u8, u64);

/// A function that is being executed, and what is inlined into it.
#[derive(Debug, Default)]
struct Call {
    node: u32,
    /// So many more calls like this one are below it, of which nothing is known.
    unnamed: u64,
    /// The lowest address of its frame; 0 if unknown.
    frame: u64,
    inlined: u32,
    line: u32,
    /// Whether it was called back, under a lock of the caller's own.
    called_back: bool,
    /// What was done since the inlined functions were entered.
    seen: HashSet<Operation, FxBuildHasher>,
}

const ROOT: u32 = 0;
/// How many atomic variables are remembered that a thread accesses in a region.
const TOUCHED: usize = 64;

#[derive(Debug, Default)]
struct Thread {
    id: ThreadId,
    /// The upper end of its stack.
    stack_end: u64,
    stack: Vec<Call>,
    /// The functions of the user's that it is in; `None` for one that is part of another.
    open: Vec<Option<FunctionId>>,
    /// The regions that the program has begun: how many functions were open then.
    blocks: Vec<usize>,
    /// The bottom-most of them.
    entry: Option<FunctionId>,
    /// Whether nothing has been entered since, so that it may be the closure of a test.
    held_back: bool,
    /// The `Enter` of the last of the functions that are open, until something happens in them.
    entering: Vec<Event>,
    /// Locks held together with others, and how often.
    shared: Vec<LockId>,
    /// The guards of what it initialises that is initialised once, and how many calls it was in then.
    initialising: Vec<(u64, usize)>,
    /// A lock that it has as soon as it does anything else.
    acquiring: Option<(u64, SiteId, Change)>,
    /// Nothing has happened since it was said that the thread waits.
    waiting: bool,
    /// The locks it holds, of either kind, as often as it holds them.
    held: Vec<LockId>,
    /// Those that an implementation has let go of and will take again before it returns.
    lent: Vec<LockId>,
    /// Locks that it has taken in an attempt to take several, which may be given up.
    attempted: Vec<(u64, SiteId)>,
    /// Whether it is in such an attempt.
    attempting: bool,
    /// Looks at atomic variables that have not led to anything yet (see [`looks`]).
    looks: Looks,
    /// Atomic variables that it has accessed in the region it is in; see [`Translator::free`].
    touched: Vec<VarId>,
    /// Looks at atomic variables, and exchanges after them.
    decisions: Decisions,
    /// Its critical sections.
    sections: Sections,
    /// Whether it is in a region whose beginning was forgotten.
    lost: bool,
    /// Whether the order of what it does now was forgotten.
    doubtful: bool,
    /// In the first pass: the locks that it holds, and what it has done under them, the latest last.
    taken: Vec<Taken>,
    /// In the second pass: what it has seen where it only waits.
    awaited: Awaited,
    /// The threads it has started that end before a scope does, each with the number of
    /// functions that it was in.
    scoped: Vec<(usize, u64)>,
}

impl Thread {
    /// Something happens in the functions that the thread is in: they are entered now at the latest.
    fn arrive(&mut self, batch: &mut Batch) {
        batch.events.append(&mut self.entering);
        self.held_back = false;
    }
}

/// Makes events of records, one after the other.
pub struct Translator {
    options: Options,
    symbols: Symbols,
    cells: Cells,
    threads: Vec<Thread>,
    thread_ids: FxMap<u64, ThreadId>,
    /// The last thread, by number, on each stack, by its lower end.
    stacks: FxMap<u64, u64>,
    locks: BTreeMap<u64, LockId>,
    lock_count: u32,
    /// Addresses of the guards of statics in C++.
    guards: HashSet<u64, FxBuildHasher>,
    functions: HashMap<Box<str>, FunctionId, FxBuildHasher>,
    function_names: Vec<Box<str>>,
    sites: HashMap<Vec<names::Frame>, SiteId, FxBuildHasher>,
    /// The sites of writes after a second look, by the site and that of the look.
    sites_again: FxMap<(SiteId, SiteId), SiteId>,
    object_count: u32,
    naming: Naming,
    nodes: Vec<Node>,
    node_ids: HashMap<Node, u32, FxBuildHasher>,
    children: FxMap<(u32, u64, u64), u32>,
    /// Chains of inlined functions, outermost first, with the place of each call; the first one is
    /// empty.
    inlined: Vec<Vec<Inlined>>,
    inlined_ids: HashMap<Vec<Inlined>, u32, FxBuildHasher>,
    locations: HashMap<Rc<[Frame]>, u32, FxBuildHasher>,
    places: FxMap<(u32, u64), Place>,
    /// Places in the source at which threads spin.
    spinning: HashSet<u32, FxBuildHasher>,
    /// In the first pass: what is found out for the second.
    survey: Option<Survey>,
    repeated: Vec<Repeated>,
    /// Whose the values of atomic variables are.
    claims: Claims,
    /// What the first pass has found out of them.
    blind: Blind,
    owners: Owners,
    waits: Waits,
    /// In the first pass: positions of frees that are not ordered after a use.
    freed_in_use: Positions,
    findings: Findings,
    annotations: Annotations,
    /// Whether a part of a recording is replayed.
    is_replay: bool,
    /// What has no name because it was defined in a replay.
    nameless: Nameless,
    /// In a replay: where a thread has a lock again that it has waited with before.
    relocked: Positions,
    cuts: Cuts,
    batch: Batch,
}

impl std::fmt::Debug for Translator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Translator")
            .field("cells", &self.cells)
            .finish_non_exhaustive()
    }
}

impl Translator {
    /// Translates records of a process with these names; the cells are those of all records that
    /// come.
    pub fn new(symbols: Symbols, cells: Cells, options: Options) -> Translator {
        let annotations = Annotations::new(&symbols);
        let mut translator = Translator {
            options,
            symbols,
            cells,
            threads: Vec::new(),
            thread_ids: FxMap::default(),
            stacks: FxMap::default(),
            locks: BTreeMap::new(),
            lock_count: 0,
            guards: HashSet::default(),
            functions: HashMap::default(),
            function_names: Vec::new(),
            sites: HashMap::default(),
            sites_again: FxMap::default(),
            object_count: 0,
            naming: Naming::default(),
            nodes: vec![Node::default()],
            node_ids: std::iter::once((Node::default(), ROOT)).collect(),
            children: FxMap::default(),
            inlined: vec![Vec::new()],
            inlined_ids: HashMap::default(),
            locations: HashMap::default(),
            places: FxMap::default(),
            spinning: HashSet::default(),
            survey: None,
            repeated: Vec::new(),
            claims: Claims::default(),
            blind: Blind::default(),
            owners: Owners::default(),
            waits: Waits::default(),
            freed_in_use: Positions::default(),
            findings: Findings::default(),
            annotations,
            is_replay: false,
            nameless: Nameless::default(),
            relocked: Positions::default(),
            cuts: Cuts::default(),
            batch: Batch::default(),
        };
        let spins: Vec<u64> = translator.cells.atomics().spins().collect();
        translator.note_spins(&spins);
        translator.find_not_atomic();
        translator
    }

    /// A translator of the same recording that has not seen anything of it yet.
    fn again(mut self) -> Translator {
        self.cells.restart();
        Translator {
            findings: self.findings,
            blind: self.blind,
            owners: self.owners,
            waits: self.waits,
            naming: self.naming.again(),
            ..Translator::new(self.symbols, self.cells, self.options)
        }
    }

    fn function(&mut self, name: &str) -> FunctionId {
        if let Some(&id) = self.functions.get(name) {
            return id;
        }
        let id = FunctionId(self.functions.len() as u32);
        self.functions.insert(name.into(), id);
        self.function_names.push(name.into());
        self.batch
            .definitions
            .push(Definition::Function(name.into()));
        id
    }

    fn site(&mut self, frames: &[Frame]) -> SiteId {
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| names::Frame {
                function: Some(self.function(&frame.function)),
                file: (&*frame.file).into(),
                line: frame.line,
                column: frame.column,
            })
            .collect();
        if let Some(&id) = self.sites.get(&frames) {
            return id;
        }
        let id = self.new_site(frames.clone(), None);
        self.sites.insert(frames, id);
        id
    }

    fn new_site(&mut self, frames: Vec<names::Frame>, looked_again: Option<SiteId>) -> SiteId {
        self.naming.site(&frames);
        let known = self.sites.len() + self.sites_again.len();
        self.batch.definitions.push(Definition::Site(names::Site {
            frames,
            looked_again,
        }));
        SiteId(known as u32 + 1)
    }

    /// The site of a write after a second look.
    fn site_again(&mut self, site: SiteId, look: SiteId) -> SiteId {
        if let Some(&again) = self.sites_again.get(&(site, look)) {
            return again;
        }
        let mut known = self.sites.iter();
        let Some((frames, _)) = known.find(|(_, id)| **id == site) else {
            return site;
        };
        let again = self.new_site(frames.clone(), Some(look));
        self.sites_again.insert((site, look), again);
        again
    }

    /// What has been translated since the last time.
    pub fn take(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }
}
