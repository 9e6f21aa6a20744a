//! Which atomic set is a variable in, and which functions are declared units of work on it?
//!
//! Every variable is in at most one atomic set, found when it is first accessed or referred from. A set has *kinds*:
//! the classes of its fields, or the declaration it comes from. Functions are units of work on
//! kinds ([`Rule`]), because a function is known before the objects it will work on.
//!
//! # The heuristics (section 4.1)
//!
//! * The fields of one object are an atomic set, inherited ones included. The elements of an array
//!   are the fields of an object without a class.
//! * The static fields of one class are another. A variable without object and class is a set of
//!   its own.
//! * A method is a unit of work on the object it was called on and on the statics of its class. A
//!   trace does not name that object: it is taken to be the first one of the method's class that
//!   is accessed while it runs.
//! * A labelled block is a unit of work on every set: someone has put it there.
//! * A function that accesses a field itself is an additional unit of work on the field's set, from
//!   then on and without effect on its callers (`unitfor`); see [`super::units`].
//! * A function that calls a method of an inner class which accesses the object around it (an
//!   iterator over its list) is one as well.
//! * An object that a field refers to (as traces with reference stores tell) is a *member* of the
//!   field's set. If a function accesses a field of the member right after one of the set, the
//!   member is `owned`: its set is merged into the other.
//! * Volatile fields and atomic accesses stay out. Final fields should, too, but a trace does not
//!   tell them; they are not written after construction, so they have conflicts with that only,
//!   and a declaration can leave them `out`.
//!
//! Only functions and blocks that the specification calls atomic count; by default, all but the
//! entry points of threads.
//!
//! # Merging
//!
//! Merging takes effect at once and for what follows: the variables change their set, and what
//! happened to them before is before everything that will happen. So every variable knows its
//! set directly, and the member's conflict graph can be thrown away.

use super::declaration::{Cover, Declaration};
use crate::regions::OpenFrame;
use atomsan_trace::{FunctionId, Names, ObjectId, VarId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// Where atomic sets and units of work come from.
#[derive(Clone, Debug, Default)]
pub enum Choice {
    /// Section 4.1: objects and classes are sets, methods and blocks are units.
    #[default]
    Heuristic,
    /// A file says so.
    Declared(Declaration),
    /// All variables are one set, and all atomic regions are units on it: atomic-set
    /// serializability is conflict serializability then.
    Everything,
}

/// An atomic set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct SetId(pub(super) u32);

impl SetId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A class, or a declared set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Kind(u32);

/// On which sets a function or block is a unit of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    Nothing,
    Everything,
    /// Those of its class, and what it accesses itself.
    Method(Option<Kind>),
    /// Those that the declaration says for this function.
    Declared(FunctionId),
}

/// What identifies a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Key {
    Object(ObjectId),
    Kind(Kind),
    KindOfObject(Kind, ObjectId),
    Alone(VarId),
}

#[derive(Debug)]
struct AtomicSet {
    key: Key,
    kinds: SmallVec<[Kind; 2]>,
    vars: Vec<VarId>,
    merged_into: Option<SetId>,
}

#[derive(Clone, Copy, Default, Debug)]
enum Place {
    #[default]
    Unknown,
    Out,
    In(SetId),
}

/// The sets of all variables.
#[derive(Debug, Default)]
pub(super) struct Sets {
    choice: Choice,
    places: Vec<Place>,
    sets: Vec<AtomicSet>,
    by_key: HashMap<Key, SetId, FxBuildHasher>,
    /// Classes, by name, and the classes that inner ones are in.
    classes: HashMap<String, Kind, FxBuildHasher>,
    around: HashMap<Kind, Kind, FxBuildHasher>,
    /// The class of a function.
    methods: HashMap<FunctionId, Option<Kind>, FxBuildHasher>,
    /// What the declaration says of a function, kind by kind.
    declared: HashMap<FunctionId, Vec<Cover>, FxBuildHasher>,
    /// What variables refer to, and the variables that refer to an object.
    refers: HashMap<VarId, ObjectId, FxBuildHasher>,
    holders: HashMap<ObjectId, SmallVec<[VarId; 2]>, FxBuildHasher>,
    /// The sets that objects are declared a part of.
    owners: HashMap<ObjectId, SetId, FxBuildHasher>,
    merged: u64,
}

impl Sets {
    pub(super) fn new(choice: Choice) -> Self {
        Sets {
            choice,
            ..Sets::default()
        }
    }

    /// How many sets there are.
    pub(super) fn len(&self) -> usize {
        self.sets.len() - self.merged as usize
    }

    /// How many sets were merged into others.
    pub(super) fn merged(&self) -> u64 {
        self.merged
    }

    /// Whether a function is a unit of work on what it accesses itself, and atomic accesses stay
    /// out.
    #[inline]
    pub(super) fn heuristic(&self) -> bool {
        matches!(self.choice, Choice::Heuristic)
    }

    /// The set a variable is in, if its place is known already.
    #[inline]
    pub(super) fn known(&self, x: VarId) -> Option<Option<SetId>> {
        match self.places.get(x.index()) {
            Some(Place::In(set)) => Some(Some(*set)),
            Some(Place::Out) => Some(None),
            Some(Place::Unknown) | None => None,
        }
    }

    /// Finds the set of a variable. A set may get another kind by this.
    #[cold]
    pub(super) fn find(&mut self, x: VarId, names: &Names) -> Option<SetId> {
        if let Some(known) = self.known(x) {
            return known;
        }
        let place = match self.identify(x, names) {
            None => Place::Out,
            Some((key, kind)) => {
                let set = self.set(key);
                let entry = &mut self.sets[set.index()];
                entry.vars.push(x);
                if let Some(kind) = kind.filter(|kind| !entry.kinds.contains(kind)) {
                    entry.kinds.push(kind);
                }
                Place::In(set)
            }
        };
        if self.places.len() <= x.index() {
            self.places.resize(x.index() + 1, Place::Unknown);
        }
        self.places[x.index()] = place;
        match place {
            Place::In(set) => Some(set),
            _ => None,
        }
    }

    /// The key and the kind of a variable's set; none if it stays out.
    fn identify(&mut self, x: VarId, names: &Names) -> Option<(Key, Option<Kind>)> {
        let var = names.var(x);
        let object = var.and_then(|var| var.object);
        match &self.choice {
            Choice::Everything => Some((Key::Kind(Kind(0)), Some(Kind(0)))),
            Choice::Declared(declaration) => {
                let number = declaration.set_of(&names.var_name(x))?;
                let kind = Kind(number as u32);
                let key = match object {
                    Some(object) if declaration.sets()[number].per_object => {
                        Key::KindOfObject(kind, object)
                    }
                    _ => Key::Kind(kind),
                };
                Some((key, Some(kind)))
            }
            Choice::Heuristic => {
                if var.is_some_and(|var| var.volatile) {
                    return None;
                }
                let class = class_of_field(&names.var_name(x), object.is_some())
                    .map(|class| self.class(class));
                let key = match (object, class) {
                    (Some(object), _) => Key::Object(object),
                    (None, Some(class)) => Key::Kind(class),
                    (None, None) => Key::Alone(x),
                };
                Some((key, class))
            }
        }
    }

    fn class(&mut self, name: &str) -> Kind {
        if let Some(&class) = self.classes.get(name) {
            return class;
        }
        let class = Kind(self.classes.len() as u32);
        self.classes.insert(name.to_owned(), class);
        if let Some((around, _)) = name.rsplit_once('$') {
            let around = self.class(around);
            self.around.insert(class, around);
        }
        class
    }

    /// The set with this key, or the one it was merged into.
    fn set(&mut self, key: Key) -> SetId {
        let known = match key {
            Key::Object(object) | Key::KindOfObject(_, object) => {
                let owner = self.owners.get(&object).copied();
                self.by_key.get(&key).copied().or(owner)
            }
            _ => self.by_key.get(&key).copied(),
        };
        if let Some(set) = known {
            return self.resolve(set);
        }
        let set = SetId(self.sets.len() as u32);
        self.by_key.insert(key, set);
        self.sets.push(AtomicSet {
            key,
            kinds: SmallVec::new(),
            vars: Vec::new(),
            merged_into: None,
        });
        set
    }

    fn resolve(&self, mut set: SetId) -> SetId {
        while let Some(into) = self.sets[set.index()].merged_into {
            set = into;
        }
        set
    }

    /// On which sets an open frame is a unit of work.
    pub(super) fn rule(&mut self, frame: &OpenFrame, names: &Names) -> Rule {
        match &self.choice {
            Choice::Declared(declaration) if declaration.has_units() => {
                self.declared
                    .entry(frame.function)
                    .or_insert_with(|| declaration.covers(&names.function_name(frame.function)));
                Rule::Declared(frame.function)
            }
            _ if !frame.atomic => Rule::Nothing,
            Choice::Heuristic if !frame.block => Rule::Method(self.method(frame.function, names)),
            _ => Rule::Everything,
        }
    }

    fn method(&mut self, function: FunctionId, names: &Names) -> Option<Kind> {
        if let Some(&class) = self.methods.get(&function) {
            return class;
        }
        let name = names.function_name(function);
        let class = class_of_method(&name).map(|class| self.class(class));
        self.methods.insert(function, class);
        class
    }

    /// Whether it is a method of an inner class, and the set is that of an object around it.
    pub(super) fn is_inside(&self, rule: Rule, set: SetId) -> bool {
        let Rule::Method(Some(mut class)) = rule else {
            return false;
        };
        while let Some(&around) = self.around.get(&class) {
            if self.sets[set.index()].kinds.contains(&around) {
                return true;
            }
            class = around;
        }
        false
    }

    /// How far a rule covers a set, for each of the set's kinds that it covers.
    pub(super) fn covers(&self, rule: Rule, set: SetId) -> SmallVec<[(Kind, Cover); 2]> {
        let set = &self.sets[set.index()];
        let of_object = !matches!(set.key, Key::Kind(_));
        let cover = |kind: Kind| match rule {
            Rule::Method(Some(class)) if class == kind && of_object => Cover::Receiver,
            Rule::Method(Some(class)) if class == kind => Cover::Any,
            Rule::Declared(function) => self.declared[&function][kind.0 as usize],
            Rule::Everything => Cover::Any,
            _ => Cover::None,
        };
        let kinds = set.kinds.iter().map(|&kind| (kind, cover(kind)));
        kinds.filter(|&(_, cover)| cover != Cover::None).collect()
    }

    /// A reference to `object` is stored into `into`. Returns the sets that are to be merged now:
    /// a member, and its owner.
    pub(super) fn refer(
        &mut self,
        into: VarId,
        object: ObjectId,
        names: &Names,
    ) -> SmallVec<[(SetId, SetId); 1]> {
        match &self.choice {
            Choice::Everything => SmallVec::new(),
            Choice::Heuristic => {
                self.find(into, names);
                if let Some(old) = self.refers.insert(into, object)
                    && let Some(holders) = self.holders.get_mut(&old)
                {
                    holders.retain(|holder| *holder != into);
                    if holders.is_empty() {
                        self.holders.remove(&old);
                    }
                }
                self.holders.entry(object).or_default().push(into);
                SmallVec::new()
            }
            Choice::Declared(declaration) => {
                if !declaration.owns(&names.var_name(into)) {
                    return SmallVec::new();
                }
                let kinds = 0..declaration.sets().len() as u32;
                let Some(owner) = self.find(into, names) else {
                    return SmallVec::new();
                };
                self.owners.insert(object, owner);
                let mut merges = SmallVec::new();
                for kind in kinds {
                    let key = Key::KindOfObject(Kind(kind), object);
                    let member = self.by_key.get(&key).map(|&set| self.resolve(set));
                    let merge = member.map(|member| (member, owner));
                    merges.extend(merge.filter(|&(m, o)| m != o && !merges.contains(&(m, o))));
                }
                merges
            }
        }
    }

    /// An object dies: nobody refers to it any more.
    pub(super) fn free(&mut self, object: ObjectId) {
        self.holders.remove(&object);
        self.owners.remove(&object);
    }

    /// Whether objects are known to be members of sets.
    pub(super) fn has_members(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The sets with a variable that refers to the object of `member`.
    pub(super) fn holders(&mut self, member: SetId, names: &Names) -> SmallVec<[SetId; 2]> {
        let Key::Object(object) = self.sets[member.index()].key else {
            return SmallVec::new();
        };
        let Some(holders) = self.holders.get(&object) else {
            return SmallVec::new();
        };
        let holders = holders.clone();
        holders
            .into_iter()
            .filter_map(|holder| self.find(holder, names))
            .filter(|&holder| holder != member)
            .collect()
    }

    /// Merges `member` into `owner` and returns the variables that have moved.
    pub(super) fn merge(&mut self, member: SetId, owner: SetId) -> &[VarId] {
        self.merged += 1;
        let AtomicSet { kinds, vars, .. } = &mut self.sets[member.index()];
        let (kinds, vars) = (std::mem::take(kinds), std::mem::take(vars));
        self.sets[member.index()].merged_into = Some(owner);
        for x in &vars {
            self.places[x.index()] = Place::In(owner);
        }
        let owner = &mut self.sets[owner.index()];
        for kind in kinds {
            if !owner.kinds.contains(&kind) {
                owner.kinds.push(kind);
            }
        }
        let moved = owner.vars.len();
        owner.vars.extend(vars);
        &owner.vars[moved..]
    }

    /// What the set is in the program, the same for all objects of a class.
    pub(super) fn identity(&self, set: SetId) -> (Option<Kind>, Option<VarId>) {
        let set = &self.sets[set.index()];
        match set.key {
            Key::Alone(x) => (None, Some(x)),
            _ => (set.kinds.first().copied(), None),
        }
    }

    /// The set's name, for a person.
    pub(super) fn describe(&self, set: SetId, names: &Names) -> String {
        let entry = &self.sets[set.index()];
        let kind = |kind: Kind| match &self.choice {
            Choice::Declared(declaration) => declaration.sets()[kind.0 as usize].name.to_string(),
            _ => {
                let mut classes = self.classes.iter();
                let class = classes.find(|&(_, &class)| class == kind);
                class.map_or_else(|| "?".to_owned(), |(name, _)| name.clone())
            }
        };
        match (&self.choice, entry.key) {
            (Choice::Everything, _) => "all variables".to_owned(),
            (_, Key::Alone(x)) => names.var_name(x).into_owned(),
            (_, Key::Object(object)) => {
                let classes: Vec<String> = entry.kinds.iter().map(|&class| kind(class)).collect();
                let of = if classes.is_empty() { "" } else { " of " };
                format!(
                    "the fields of {}{of}{}",
                    names.object(object),
                    classes.join(", ")
                )
            }
            (Choice::Heuristic, Key::Kind(class)) => format!("the statics of {}", kind(class)),
            (_, Key::Kind(declared)) => kind(declared),
            (_, Key::KindOfObject(declared, object)) => {
                format!("{} of {}", kind(declared), names.object(object))
            }
        }
    }
}

/// `Class` of `@id.Class.field` (a field of an object), of `null.Class.field` or `Class.field` (a
/// static).
fn class_of_field(name: &str, of_object: bool) -> Option<&str> {
    let field = match name.split_once('.') {
        Some(("null", rest)) => rest,
        Some((_, rest)) if of_object => rest,
        _ => name,
    };
    let (class, _) = field.rsplit_once('.')?;
    Some(class)
}

/// `Class` of `Class.method(arguments)result`.
fn class_of_method(name: &str) -> Option<&str> {
    let name = name.split('(').next()?;
    let (class, _) = name.rsplit_once('.')?;
    Some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_off_the_names() {
        let field = class_of_field;
        assert_eq!(
            field(r"@0C.elevator/Controls.floors_\[Lelevator/Floor;", true),
            Some("elevator/Controls")
        );
        assert_eq!(field("null.Tsp.nWorkers_I", false), Some("Tsp"));
        assert_eq!(field("Global.opCounter", false), Some("Global"));
        assert_eq!(field("@0E[36]", true), None);
        assert_eq!(field("counter", false), None);
        assert_eq!(
            class_of_method("elevator/Lift.addPeople(Ljava/util/Vector;)V"),
            Some("elevator/Lift")
        );
        assert_eq!(class_of_method("a.b.C.f(La.B;)V"), Some("a.b.C"));
        assert_eq!(class_of_method("main"), None);
    }
}
