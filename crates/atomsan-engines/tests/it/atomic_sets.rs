//! The definition of atomic-set serializability, as slowly and obviously as it can be written.
//!
//! First, each access gets its atomic set and its unit of work, with tables of everything that has
//! been said so far. Then the trace is projected on each set, and the conflict graph of each
//! projection is built from all pairs of its events. Nothing is forgotten, and nothing is shared
//! with the engine but the vocabulary.

use crate::oracle::conflict;
use atomsan_trace::names::{Definition, Names, Var};
use atomsan_trace::spec::{Atomic, Spec};
use atomsan_trace::{Event, FunctionId, ObjectId, Op, VarId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// A variable: its name, and what the name means.
pub struct Field {
    pub name: &'static str,
    pub object: Option<u32>,
    pub class: Option<usize>,
    pub volatile: bool,
}

const fn field(name: &'static str, object: Option<u32>, class: Option<usize>) -> Field {
    Field {
        name,
        object,
        class,
        volatile: false,
    }
}

/// Two classes, three objects: `@0` inherits, `@2` is an array.
pub const FIELDS: [Field; 12] = [
    field("@0.A.x", Some(0), Some(0)),
    field("@0.A.y", Some(0), Some(0)),
    field("@1.B.x", Some(1), Some(1)),
    field("@2[0]", Some(2), None),
    field("null.A.s", None, Some(0)),
    field("@1.A.y", Some(1), Some(0)),
    field("@2[1]", Some(2), None),
    field("A.t", None, Some(0)),
    field("@0.B.z", Some(0), Some(1)),
    field("B.s", None, Some(1)),
    field("alone", None, None),
    Field {
        name: "@0.A.v",
        object: Some(0),
        class: Some(0),
        volatile: true,
    },
];

/// Functions and labels, and their classes.
pub const FUNCTIONS: [(&str, Option<usize>); 6] = [
    ("A.f(I)V", Some(0)),
    ("B.f()Lp.C;", Some(1)),
    ("A.g", Some(0)),
    ("h", None),
    ("B.run", Some(1)),
    ("A$Iterator.next", Some(2)),
];

/// The last class is in the first.
const INNER: (usize, usize) = (2, 0);

/// What is atomic.
pub const SPEC: &str = "!B.run";

pub fn names() -> Names {
    let mut names = Names::new(Spec::parse(Path::new("spec"), SPEC).unwrap());
    for object in ["@0", "@1", "@2"] {
        names.define(Definition::Object(object.into()));
    }
    for field in FIELDS {
        names.define(Definition::Var(Var {
            name: field.name.into(),
            object: field.object.map(ObjectId),
            volatile: field.volatile,
        }));
    }
    for (name, _) in FUNCTIONS {
        names.define(Definition::Function(name.into()));
    }
    names
}

/// A declaration, before it is written down.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Whether each set is one per object.
    pub sets: Vec<bool>,
    /// The set of each field.
    pub members: Vec<Option<usize>>,
    /// Function, `unitfor`, sets.
    pub units: Vec<(usize, bool, Vec<usize>)>,
    /// Fields whose objects are parts of their sets.
    pub owned: Vec<usize>,
}

impl Declared {
    /// As a file.
    pub fn text(&self) -> String {
        use std::fmt::Write;
        let escape = |name: &str| name.replace('[', r"\[").replace(']', r"\]");
        let mut text = String::new();
        for (set, per_object) in self.sets.iter().enumerate() {
            let per_object = if *per_object { " per object" } else { "" };
            write!(text, "set s{set}{per_object}: nothing").unwrap();
            for (member, _) in (self.members.iter().enumerate()).filter(|(_, of)| **of == Some(set))
            {
                write!(text, " {}", escape(FIELDS[member].name)).unwrap();
            }
            text.push('\n');
        }
        for (function, unitfor, sets) in &self.units {
            let keyword = if *unitfor { "unitfor" } else { "unit" };
            let sets: Vec<String> = sets.iter().map(|set| format!("s{set}")).collect();
            let function = FUNCTIONS[*function].0;
            writeln!(text, "{keyword} {function} on {}", sets.join(" ")).unwrap();
        }
        for &field in &self.owned {
            writeln!(text, "owned {}", escape(FIELDS[field].name)).unwrap();
        }
        text
    }
}

/// Where sets and units come from.
#[derive(Clone, Debug)]
pub enum Rules {
    Heuristic,
    Declared(Declared),
    Everything,
}

type Set = usize;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    Object(u32),
    Class(usize),
    Alone(VarId),
    Declared(usize, Option<u32>),
    All,
}

#[derive(Debug)]
struct Frame {
    function: FunctionId,
    block: bool,
    atomic: bool,
    opened: usize,
    receivers: HashMap<usize, Set>,
    direct: BTreeSet<Set>,
}

/// Everything that has been said so far.
struct Tables<'a> {
    rules: &'a Rules,
    /// The key and the kinds of each set.
    sets: Vec<(Key, BTreeSet<usize>)>,
    keys: HashMap<Key, Set>,
    places: BTreeMap<VarId, Option<Set>>,
    frames: HashMap<u32, Vec<Frame>>,
    /// How often each thread has waited.
    waits: HashMap<u32, usize>,
    /// The frame, by where it opened, that was the last to access a set itself.
    latest: HashMap<(u32, Set), usize>,
    /// References, oldest first.
    references: Vec<(VarId, u32)>,
    owners: HashMap<u32, Set>,
}

/// One access, in a projection.
#[derive(Clone, Copy)]
struct Projected {
    index: usize,
    event: Event,
    /// Thread-wide unique: frame and how often the thread had waited; or the access itself.
    unit: (usize, usize, bool),
}

/// The events that close cycles, set by set. No edge is left out, so once there is a cycle more
/// events close one than an engine that goes on with an acyclic graph can report.
pub fn violations(events: &[Event], names: &Names, rules: &Rules) -> Vec<Vec<u64>> {
    let mut projections = BTreeMap::<Set, Vec<Projected>>::new();
    let mut tables = Tables {
        rules,
        sets: Vec::new(),
        keys: HashMap::new(),
        places: BTreeMap::new(),
        frames: HashMap::new(),
        waits: HashMap::new(),
        latest: HashMap::new(),
        references: Vec::new(),
        owners: HashMap::new(),
    };
    for (index, event) in events.iter().enumerate() {
        if let Some((set, unit)) = tables.step(index, event, names) {
            projections.entry(set).or_default().push(Projected {
                index,
                event: *event,
                unit,
            });
        }
    }
    projections.values().map(|events| judge(events)).collect()
}

/// The conflict graph of a projection.
fn judge(events: &[Projected]) -> Vec<u64> {
    let number = |unit| events.iter().position(|event| event.unit == unit).unwrap();
    let units: Vec<usize> = events.iter().map(|event| number(event.unit)).collect();
    let mut edges = vec![BTreeSet::new(); events.len()];
    let mut violations = Vec::new();
    for (later, event) in events.iter().enumerate() {
        let to = units[later];
        let dependences: BTreeSet<usize> = (0..later)
            .filter(|&earlier| conflict(&events[earlier].event, &event.event, false))
            .map(|earlier| units[earlier])
            .filter(|&from| from != to)
            .collect();
        if !dependences.is_disjoint(&reachable(&edges, to)) {
            violations.push(event.index as u64);
        }
        for from in dependences {
            edges[from].insert(to);
        }
    }
    violations
}

fn reachable(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut todo = vec![from];
    while let Some(at) = todo.pop() {
        if reached.insert(at) {
            todo.extend(&edges[at]);
        }
    }
    reached
}

impl Tables<'_> {
    fn step(
        &mut self,
        index: usize,
        event: &Event,
        names: &Names,
    ) -> Option<(Set, (usize, usize, bool))> {
        let thread = event.thread.0;
        match event.op {
            Op::Begin(function) | Op::Enter(function) => {
                let block = matches!(event.op, Op::Begin(_));
                let frames = self.frames.entry(thread).or_default();
                let entry = frames.is_empty() && !block;
                frames.push(Frame {
                    function,
                    block,
                    atomic: match names.function(function).map(|function| function.atomic) {
                        Some(Atomic::Yes) => true,
                        Some(Atomic::No) => false,
                        _ => !entry,
                    },
                    opened: index,
                    receivers: HashMap::new(),
                    direct: BTreeSet::new(),
                });
            }
            Op::End => self.leave(thread, |frame| frame.block),
            Op::Exit(function) => self.leave(thread, |f| !f.block && f.function == function),
            Op::Wait(_) | Op::Arrive(_) => *self.waits.entry(thread).or_default() += 1,
            Op::RefStore { into, object } => self.refer(into, object.0),
            Op::Free(object) => {
                self.references.retain(|&(_, to)| to != object.0);
                self.owners.remove(&object.0);
            }
            op => return self.access(index, thread, op.var()?, op.is_atomic()),
        }
        None
    }

    fn leave(&mut self, thread: u32, matches: impl Fn(&Frame) -> bool) {
        let frames = self.frames.entry(thread).or_default();
        if let Some(at) = frames.iter().rposition(matches) {
            frames.truncate(at);
        }
    }

    fn access(
        &mut self,
        index: usize,
        thread: u32,
        x: VarId,
        atomic: bool,
    ) -> Option<(Set, (usize, usize, bool))> {
        let heuristic = matches!(self.rules, Rules::Heuristic);
        if heuristic && atomic {
            return None;
        }
        let mut set = self.place(x)?;
        let frames = self.frames.entry(thread).or_default();
        let accessor = frames.iter().rfind(|frame| !frame.block);
        let accessor = accessor.filter(|frame| heuristic && frame.atomic);
        if let Some(accessor) = accessor.map(|frame| frame.opened) {
            while let Some(owner) = self.owner(thread, set, accessor) {
                self.merge(set, owner);
                set = owner;
            }
            self.latest.insert((thread, set), accessor);
            let kinds = &self.sets[set].1;
            let frames = self.frames.get_mut(&thread).unwrap();
            // A caller of a method of the inner class is a unit, too.
            for frame in frames.iter_mut().rev().filter(|frame| !frame.block) {
                if !frame.atomic {
                    break;
                }
                frame.direct.insert(set);
                let class = FUNCTIONS[frame.function.index()].1;
                if class != Some(INNER.0) || !kinds.contains(&INNER.1) {
                    break;
                }
            }
        } else {
            self.latest.remove(&(thread, set));
        }
        let (key, kinds) = &self.sets[set];
        let (rules, waits) = (self.rules, self.waits.get(&thread).copied().unwrap_or(0));
        let frames = self.frames.get_mut(&thread).unwrap();
        let units: Vec<bool> = (frames.iter_mut())
            .map(|frame| frame.is_unit(rules, set, key, kinds))
            .collect();
        Some(match units.iter().position(|unit| *unit) {
            Some(top_most) => (set, (frames[top_most].opened, waits, true)),
            None => (set, (index, 0, false)),
        })
    }

    /// The set that `set` is a member of, if the frame opened at `accessor` was the last one to
    /// access it.
    fn owner(&mut self, thread: u32, set: Set, accessor: usize) -> Option<Set> {
        let Key::Object(object) = self.sets[set].0 else {
            return None;
        };
        let holders: Vec<VarId> = (self.references.iter())
            .filter(|(_, to)| *to == object)
            .map(|(from, _)| *from)
            .collect();
        let mut owners = holders.into_iter().filter_map(|holder| self.place(holder));
        let owners: Vec<Set> = owners.by_ref().collect();
        owners
            .into_iter()
            .find(|owner| *owner != set && self.latest.get(&(thread, *owner)) == Some(&accessor))
    }

    fn refer(&mut self, into: VarId, object: u32) {
        match self.rules {
            Rules::Everything => {}
            Rules::Heuristic => {
                self.place(into);
                self.references.retain(|&(from, _)| from != into);
                self.references.push((into, object));
            }
            Rules::Declared(declared) => {
                if !declared.owned.contains(&into.index()) {
                    return;
                }
                let Some(owner) = self.place(into) else {
                    return;
                };
                self.owners.insert(object, owner);
                for kind in 0..declared.sets.len() {
                    let member = self.keys.get(&Key::Declared(kind, Some(object)));
                    if let Some(&member) = member.filter(|member| **member != owner) {
                        self.merge(member, owner);
                    }
                }
            }
        }
    }

    /// What comes after this is about `owner`; what came before stays where it was.
    fn merge(&mut self, member: Set, owner: Set) {
        let rename = |set: &mut Set| {
            if *set == member {
                *set = owner;
            }
        };
        self.keys.values_mut().for_each(rename);
        self.places.values_mut().flatten().for_each(rename);
        self.owners.values_mut().for_each(rename);
        for frame in self.frames.values_mut().flatten() {
            frame.receivers.values_mut().for_each(rename);
            if frame.direct.remove(&member) {
                frame.direct.insert(owner);
            }
        }
        let kinds = std::mem::take(&mut self.sets[member].1);
        self.sets[owner].1.extend(kinds);
    }

    fn place(&mut self, x: VarId) -> Option<Set> {
        if let Some(place) = self.places.get(&x) {
            return *place;
        }
        let field = &FIELDS[x.index()];
        let key = match self.rules {
            Rules::Everything => Some((Key::All, None)),
            Rules::Heuristic if field.volatile => None,
            Rules::Heuristic => Some(match (field.object, field.class) {
                (Some(object), class) => (Key::Object(object), class),
                (None, Some(class)) => (Key::Class(class), Some(class)),
                (None, None) => (Key::Alone(x), None),
            }),
            Rules::Declared(declared) => declared.members[x.index()].map(|set| {
                let object = field.object.filter(|_| declared.sets[set]);
                (Key::Declared(set, object), Some(set))
            }),
        };
        let place = key.map(|(key, kind)| {
            let owner = match key {
                Key::Declared(_, Some(object)) => self.owners.get(&object).copied(),
                _ => None,
            };
            let set = self.keys.get(&key).copied().or(owner).unwrap_or_else(|| {
                self.sets.push((key.clone(), BTreeSet::new()));
                self.keys.insert(key, self.sets.len() - 1);
                self.sets.len() - 1
            });
            self.sets[set].1.extend(kind);
            set
        });
        self.places.insert(x, place);
        place
    }
}

impl Frame {
    /// Whether it is a unit of work on a set that is accessed now.
    fn is_unit(&mut self, rules: &Rules, set: Set, key: &Key, kinds: &BTreeSet<usize>) -> bool {
        let function = self.function.index();
        match rules {
            Rules::Everything => self.atomic,
            Rules::Declared(declared) if declared.units.is_empty() => self.atomic,
            Rules::Heuristic if !self.atomic => false,
            Rules::Heuristic if self.block => true,
            Rules::Heuristic => {
                let class = FUNCTIONS[function].1.filter(|class| kinds.contains(class));
                let by_class = class.is_some_and(|class| match key {
                    Key::Class(_) => true,
                    _ => *self.receivers.entry(class).or_insert(set) == set,
                });
                by_class || self.direct.contains(&set)
            }
            Rules::Declared(declared) => {
                let mut unit = false;
                for kind in kinds {
                    let declared_on = |any: bool| {
                        declared.units.iter().any(|(of, passed_in, sets)| {
                            let on_any = *passed_in || !declared.sets[*kind];
                            *of == function && sets.contains(kind) && (on_any || !any)
                        })
                    };
                    let mut receiver = || *self.receivers.entry(*kind).or_insert(set);
                    unit |= declared_on(true) || (declared_on(false) && receiver() == set);
                }
                unit
            }
        }
    }
}
