//! Random names and events: anything that can be said, whether it makes sense or not.

use atomsan_trace::names::{Frame, Site, Var};
use atomsan_trace::{
    Batch, Definition, Event, FunctionId, LockId, ObjectId, Op, SiteId, ThreadId, VarId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Small ids mostly, and any at all.
fn id() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..6_u32, 2 => 0..5000_u32, 1 => any::<u32>()]
}

/// Every operation.
pub fn op() -> impl Strategy<Value = Op> {
    (0..25_u8, id(), id()).prop_map(|(number, a, b)| match number {
        0 => Op::Begin(FunctionId(a)),
        1 => Op::End,
        2 => Op::Read(VarId(a)),
        3 => Op::Write(VarId(a)),
        4 => Op::AtomicLoad(VarId(a)),
        5 => Op::AtomicStore(VarId(a)),
        6 => Op::AtomicRmw(VarId(a)),
        7 => Op::AtomicRmwFailed(VarId(a)),
        8 => Op::Acquire(LockId(a)),
        9 => Op::Release(LockId(a)),
        10 => Op::AcquireShared(LockId(a)),
        11 => Op::ReleaseShared(LockId(a)),
        12 => Op::Wait(LockId(a)),
        13 => Op::Woken(LockId(a)),
        14 => Op::Notify(LockId(a)),
        15 => Op::Fork(ThreadId(a)),
        16 => Op::Join(ThreadId(a)),
        17 => Op::Arrive(LockId(a)),
        18 => Op::Leave(LockId(a)),
        19 => Op::Yield,
        20 => Op::Enter(FunctionId(a)),
        21 => Op::Exit(FunctionId(a)),
        22 => Op::Alloc(ObjectId(a)),
        23 => Op::Free(ObjectId(a)),
        _ => Op::RefStore {
            into: VarId(a),
            object: ObjectId(b),
        },
    })
}

pub fn event() -> impl Strategy<Value = Event> {
    (id(), id(), op()).prop_map(|(thread, site, op)| Event {
        thread: ThreadId(thread),
        site: SiteId(site),
        op,
    })
}

fn name() -> impl Strategy<Value = Box<str>> {
    prop_oneof![
        3 => "[a-c]{0,2}".prop_map(Into::into),
        1 => "[ -~\u{e4}\u{1F980}\t\n|]{0,12}".prop_map(Into::into),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    let function = option::of((0..u32::MAX).prop_map(FunctionId));
    (function, name(), id(), id()).prop_map(|(function, file, line, column)| Frame {
        function,
        file,
        line,
        column,
    })
}

pub fn definition() -> impl Strategy<Value = Definition> {
    let object = option::of((0..u32::MAX).prop_map(ObjectId));
    let var = (name(), object, any::<bool>()).prop_map(|(name, object, volatile)| {
        Definition::Var(Var {
            name,
            object,
            volatile,
        })
    });
    prop_oneof![
        name().prop_map(Definition::Thread),
        var,
        name().prop_map(Definition::Lock),
        name().prop_map(Definition::Function),
        name().prop_map(Definition::Object),
        name().prop_map(Definition::Program),
        (vec(frame(), 0..4), option::of(0..9u32)).prop_map(|(frames, look)| {
            Definition::Site(Site {
                frames,
                looked_again: look.map(SiteId),
            })
        }),
    ]
}

/// Traces in which every name is defined before it is used.
pub fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let batch =
        (vec(definition(), 0..12), vec(event(), 0..60)).prop_map(|(definitions, events)| Batch {
            definitions,
            events,
        });
    vec(batch, 0..4).prop_map(|mut batches| {
        let mut defined = Defined::default();
        for (at, batch) in batches.iter_mut().enumerate() {
            if at == 0 {
                batch.definitions.splice(0..0, one_of_each());
            }
            let definitions = batch.definitions.iter_mut();
            definitions.for_each(|definition| defined.define(definition));
            let events = batch.events.iter_mut();
            events.for_each(|event| defined.make_defined(event));
        }
        batches
    })
}

/// A definition of every kind.
pub fn one_of_each() -> Vec<Definition> {
    vec![
        Definition::Thread("t".into()),
        Definition::Object("o".into()),
        Definition::Var(Var::default()),
        Definition::Lock("l".into()),
        Definition::Function("f".into()),
        Definition::Site(Site::default()),
    ]
}

/// How many names there are so far, to choose from.
#[derive(Default)]
struct Defined {
    threads: u32,
    vars: u32,
    locks: u32,
    functions: u32,
    objects: u32,
    sites: u32,
}

impl Defined {
    fn define(&mut self, definition: &mut Definition) {
        match definition {
            Definition::Thread(_) => self.threads += 1,
            Definition::Lock(_) => self.locks += 1,
            Definition::Function(_) => self.functions += 1,
            Definition::Object(_) => self.objects += 1,
            Definition::Program(_) => {}
            Definition::Var(var) => {
                self.vars += 1;
                var.object = var.object.map(|o| ObjectId(o.0 % self.objects));
            }
            Definition::Site(site) => {
                self.sites += 1;
                for frame in &mut site.frames {
                    frame.function = frame.function.map(|f| FunctionId(f.0 % self.functions));
                }
            }
        }
    }

    fn make_defined(&self, event: &mut Event) {
        event.thread.0 %= self.threads;
        event.site.0 %= self.sites + 1;
        match &mut event.op {
            Op::End | Op::Yield => {}
            Op::Read(x)
            | Op::Write(x)
            | Op::AtomicLoad(x)
            | Op::AtomicStore(x)
            | Op::AtomicRmw(x)
            | Op::AtomicRmwFailed(x) => x.0 %= self.vars,
            Op::Acquire(l)
            | Op::Release(l)
            | Op::AcquireShared(l)
            | Op::ReleaseShared(l)
            | Op::Wait(l)
            | Op::Woken(l)
            | Op::Notify(l)
            | Op::Arrive(l)
            | Op::Leave(l) => l.0 %= self.locks,
            Op::Begin(f) | Op::Enter(f) | Op::Exit(f) => f.0 %= self.functions,
            Op::Fork(t) | Op::Join(t) => t.0 %= self.threads,
            Op::Alloc(o) | Op::Free(o) => o.0 %= self.objects,
            Op::RefStore { into, object } => {
                into.0 %= self.vars;
                object.0 %= self.objects;
            }
        }
    }
}

/// A change to a file.
#[derive(Clone, Debug)]
pub enum Mutation {
    Set(u16, u8),
    Flip(u16, u8),
    Insert(u16, u8),
    Delete(u16, u8),
    Repeat(u16, u8),
    Truncate(u16),
}

impl Mutation {
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let at = |position: u16| usize::from(position) % (bytes.len() + 1);
        let until =
            |position: u16, length: u8| (at(position) + usize::from(length)).min(bytes.len());
        match *self {
            Mutation::Set(position, value) => {
                let at = at(position);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            Mutation::Flip(position, bit) => {
                let at = at(position);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Mutation::Insert(position, value) => {
                let at = at(position);
                bytes.insert(at, value);
            }
            Mutation::Delete(position, length) => {
                let range = at(position)..until(position, length);
                bytes.drain(range);
            }
            Mutation::Repeat(position, length) => {
                let range = at(position)..until(position, length);
                let copy = bytes[range.clone()].to_vec();
                bytes.splice(range.start..range.start, copy);
            }
            Mutation::Truncate(position) => {
                let at = at(position);
                bytes.truncate(at);
            }
        }
    }
}

pub fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    // The bytes that mean something in one format or another.
    let byte = prop_oneof![
        any::<u8>(),
        proptest::sample::select(&b"|()@\n\r .,:[]0119rwbegin\x80\x00\xff"[..]),
    ];
    let mutation = (0..6_u8, any::<u16>(), byte).prop_map(|(kind, at, byte)| match kind {
        0 => Mutation::Set(at, byte),
        1 => Mutation::Flip(at, byte),
        2 => Mutation::Insert(at, byte),
        3 => Mutation::Delete(at, byte),
        4 => Mutation::Repeat(at, byte),
        _ => Mutation::Truncate(at),
    });
    vec(mutation, 1..6)
}
