//! What the ids stand for.
//!
//! Readers intern each name once and announce it as a [`Definition`] in front of the first event
//! that uses its id. The consumer keeps them in [`Names`]. Ids are dense and defined in order,
//! kind by kind, so a table is a vector; an id that was never defined (a damaged trace) resolves
//! to a placeholder, never to a panic.

use crate::event::{FunctionId, LockId, ObjectId, SiteId, ThreadId, VarId};
use crate::spec::{Atomic, Spec};
use std::borrow::Cow;

/// A variable: its name, and the object it is a part of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Var {
    /// As the trace spells it.
    pub name: Box<str>,
    /// The object it lives in; `None` for statics and for traces that do not say.
    pub object: Option<ObjectId>,
    /// Declared volatile or atomic by the program.
    pub volatile: bool,
}

/// One frame of a place: a function, and the line in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Frame {
    /// The function, if known.
    pub function: Option<FunctionId>,
    /// The source file; empty if unknown.
    pub file: Box<str>,
    /// The line, from 1; 0 if unknown.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
}

impl Frame {
    /// Whether the line is all there is: a location number, which may be 0.
    pub fn is_bare(&self) -> bool {
        self.function.is_none() && self.file.is_empty()
    }
}

/// A place in the program: innermost frame first, then the frames it was inlined into and, where
/// a trace knows them, the callers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Site {
    /// Innermost first; empty for an unknown place.
    pub frames: Vec<Frame>,
    /// It is the place of a write whose critical section looked again, at this other place before
    /// it, at what the thread had looked at before it took the lock: the write does not come from
    /// what was seen then.
    pub looked_again: Option<SiteId>,
}

impl Site {
    /// The innermost frame.
    pub fn frame(&self) -> Option<&Frame> {
        self.frames.first()
    }

    /// Whether it has a line, or the location number of a trace without files and functions.
    pub fn is_placed(&self) -> bool {
        self.frame()
            .is_some_and(|frame| frame.line != 0 || frame.is_bare())
    }
}

/// A function or a labelled region.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Function {
    /// As the trace spells it.
    pub name: Box<str>,
    /// What the specification says of it.
    pub atomic: Atomic,
}

/// One name, announced: it gets the next id of its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Definition {
    /// The next [`ThreadId`].
    Thread(Box<str>),
    /// The next [`VarId`].
    Var(Var),
    /// The next [`LockId`].
    Lock(Box<str>),
    /// The next [`FunctionId`].
    Function(Box<str>),
    /// The next [`ObjectId`].
    Object(Box<str>),
    /// The next [`SiteId`]; the first one defined is `SiteId(1)`.
    Site(Site),
    /// The program that the events were recorded of: nothing that an id stands for. It comes first,
    /// if it comes.
    Program(Box<str>),
}

/// All names of a trace.
#[derive(Clone, Debug)]
pub struct Names {
    spec: Spec,
    threads: Vec<Box<str>>,
    vars: Vec<Var>,
    locks: Vec<Box<str>>,
    functions: Vec<Function>,
    objects: Vec<Box<str>>,
    sites: Vec<Site>,
}

impl Default for Names {
    fn default() -> Self {
        Names::new(Spec::default())
    }
}

impl Names {
    /// No names yet; `spec` will decide which functions are expected to be atomic.
    pub fn new(spec: Spec) -> Self {
        Names {
            spec,
            threads: Vec::new(),
            vars: Vec::new(),
            locks: Vec::new(),
            functions: Vec::new(),
            objects: Vec::new(),
            sites: vec![Site::default()],
        }
    }

    /// Gives a name the next id of its kind.
    pub fn define(&mut self, definition: Definition) {
        match definition {
            Definition::Thread(name) => self.threads.push(name),
            Definition::Var(var) => self.vars.push(var),
            Definition::Lock(name) => self.locks.push(name),
            Definition::Function(name) => {
                let atomic = self.spec.decide(&name);
                self.functions.push(Function { name, atomic });
            }
            Definition::Object(name) => self.objects.push(name),
            Definition::Site(site) => self.sites.push(site),
            Definition::Program(_) => {}
        }
    }

    /// Gives a thread that is defined another name: a thread may get its own long after it has
    /// started.
    pub fn rename_thread(&mut self, id: ThreadId, name: &str) {
        if let Some(thread) = self.threads.get_mut(id.index()) {
            *thread = name.into();
        }
    }

    /// Names a variable that is defined without a name.
    pub fn name_var(&mut self, id: VarId, var: Var) {
        if let Some(known) = self.vars.get_mut(id.index()) {
            *known = var;
        }
    }

    /// Names a lock that is defined without a name.
    pub fn name_lock(&mut self, id: LockId, name: &str) {
        if let Some(known) = self.locks.get_mut(id.index()) {
            *known = name.into();
        }
    }

    /// The same names without variables, locks and objects, whose ids start again.
    #[must_use]
    pub fn without_data(&self) -> Names {
        Names {
            spec: self.spec.clone(),
            threads: self.threads.clone(),
            vars: Vec::new(),
            locks: Vec::new(),
            functions: self.functions.clone(),
            objects: Vec::new(),
            sites: self.sites.clone(),
        }
    }

    /// What decides which functions are expected to be atomic.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// From now on, a function is not atomic, whatever the specification said. Whether that is new.
    pub fn demote(&mut self, id: FunctionId) -> bool {
        let Some(function) = self.functions.get_mut(id.index()) else {
            return false;
        };
        function.atomic = Atomic::No;
        self.spec.demote(&function.name)
    }

    /// A thread's name.
    pub fn thread(&self, id: ThreadId) -> Cow<'_, str> {
        name_or(&self.threads, id.index(), "thread")
    }

    /// A lock's name.
    pub fn lock(&self, id: LockId) -> Cow<'_, str> {
        name_or(&self.locks, id.index(), "lock")
    }

    /// An object's name.
    pub fn object(&self, id: ObjectId) -> Cow<'_, str> {
        name_or(&self.objects, id.index(), "object")
    }

    /// A variable's name.
    pub fn var_name(&self, id: VarId) -> Cow<'_, str> {
        match self.vars.get(id.index()) {
            Some(var) => Cow::Borrowed(&*var.name),
            None => Cow::Owned(format!("var#{}", id.0)),
        }
    }

    /// A function's name.
    pub fn function_name(&self, id: FunctionId) -> Cow<'_, str> {
        match self.functions.get(id.index()) {
            Some(function) => Cow::Borrowed(&*function.name),
            None => Cow::Owned(format!("function#{}", id.0)),
        }
    }

    /// A variable, if it was defined.
    pub fn var(&self, id: VarId) -> Option<&Var> {
        self.vars.get(id.index())
    }

    /// A function, if it was defined.
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(id.index())
    }

    /// A place, if it was defined.
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.sites.get(id.index())
    }

    /// Whether a place has a line, or a location number.
    pub fn is_placed(&self, id: SiteId) -> bool {
        self.site(id).is_some_and(Site::is_placed)
    }

    /// All threads, in id order.
    pub fn threads(&self) -> &[Box<str>] {
        &self.threads
    }

    /// All variables, in id order.
    pub fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// All locks, in id order.
    pub fn locks(&self) -> &[Box<str>] {
        &self.locks
    }

    /// All functions, in id order.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// All objects, in id order.
    pub fn objects(&self) -> &[Box<str>] {
        &self.objects
    }

    /// All places, in id order; the first is the unknown one.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }
}

fn name_or<'a>(table: &'a [Box<str>], index: usize, kind: &str) -> Cow<'a, str> {
    match table.get(index) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("{kind}#{index}")),
    }
}
