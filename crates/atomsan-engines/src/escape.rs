//! Which objects can be reached by more than one thread (Wang–Stoller, section 3).
//!
//! What happens to an object before it escapes from the thread that made it interests nobody
//! else. An object escapes when a reference to it is stored in a static variable or in an escaped
//! object, and everything it refers to escapes with it.
//!
//! # What a trace knows
//!
//! An object whose `Alloc` was seen, and that nobody could have passed on yet, is [`Escape::Local`]:
//! its accesses can be forgotten at once, by every engine. A `Fork` may hand any object of the
//! starting thread to the new one (the event does not say which; the paper's thread object is not
//! in it), so from then on the objects the thread had made are no longer known to be local, and so
//! is every object of which no `Alloc` was seen, and every variable in a trace without objects.
//! For those the second thread that touches them decides: until then they are
//! [`Escape::Perhaps`], afterwards [`Escape::Escaped`].
//!
//! An online engine takes `Perhaps` for *not escaped so far*, as Eraser does, and may miss what
//! the first thread did. An offline engine keeps such accesses, and drops them in the end if no
//! second thread came: that is conservative, because only then it is certain.
//!
//! # Invariant
//!
//! An object is never below one that refers to it: `Local` < `Perhaps` < `Escaped`. A reference
//! store raises the referred object to the level of the referring one, and raising an object
//! raises what it refers to. References are never taken back (as in the paper, which has no
//! ownership transfer), and those out of an escaped object need not be remembered.

use atomsan_trace::{Event, Names, ObjectId, Op, ThreadId, VarId};

/// Who may reach an object or a variable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Escape {
    /// Only the thread that made it.
    Local,
    /// Only one thread touched it so far; others may be able to.
    Perhaps,
    /// More than one thread.
    Escaped,
}

#[derive(Clone, Debug, Default)]
struct Object {
    state: State,
    /// What it refers to; empty once it has escaped.
    refers: Vec<ObjectId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// No event was about it.
    #[default]
    Unseen,
    /// Made by this thread when it had forked so many others.
    Made(ThreadId, u32),
    /// Only touched by this thread, and not known to be local.
    Touched(ThreadId),
    Escaped,
}

/// Who may reach what.
#[derive(Debug, Default)]
pub struct Escapes {
    objects: Vec<Object>,
    /// For variables that are in no object.
    loose: Vec<State>,
    /// How many threads each thread has forked.
    forks: Vec<u32>,
    /// The trace has objects, so a variable without one is a static.
    objects_known: bool,
    /// Objects to raise; kept for its allocation.
    todo: Vec<ObjectId>,
}

impl Escapes {
    /// Follows an event that is no access: `Alloc`, `RefStore`, `Fork` and `Free` matter.
    #[inline]
    pub fn step(&mut self, event: &Event, names: &Names) {
        match event.op {
            Op::Alloc(object) => {
                self.objects_known = true;
                let forks = self.forks_of(event.thread);
                *self.object(object) = Object {
                    state: State::Made(event.thread, forks),
                    refers: Vec::new(),
                };
            }
            Op::Free(object) => *self.object(object) = Object::default(),
            Op::Fork(_) => {
                let thread = event.thread.index();
                if self.forks.len() <= thread {
                    self.forks.resize(thread + 1, 0);
                }
                self.forks[thread] += 1;
            }
            Op::RefStore { into, object } => self.store(event.thread, into, object, names),
            _ => {}
        }
    }

    /// A thread accesses a variable; returns who may reach it, this thread included.
    #[inline]
    pub fn touch(&mut self, thread: ThreadId, var: VarId, names: &Names) -> Escape {
        match names.var(var).and_then(|var| var.object) {
            Some(object) => self.touch_object(thread, object),
            None => self.touch_loose(thread, var),
        }
    }

    /// Who may reach an object, as far as is known.
    pub fn of_object(&self, object: ObjectId) -> Escape {
        let state = self.objects.get(object.index()).map(|object| object.state);
        match state.unwrap_or_default() {
            State::Made(thread, forks) if forks == self.forks_of(thread) => Escape::Local,
            State::Escaped => Escape::Escaped,
            _ => Escape::Perhaps,
        }
    }

    fn touch_loose(&mut self, thread: ThreadId, var: VarId) -> Escape {
        if self.objects_known {
            return Escape::Escaped;
        }
        if self.loose.len() <= var.index() {
            self.loose.resize(var.index() + 1, State::Unseen);
        }
        let state = &mut self.loose[var.index()];
        match *state {
            State::Touched(first) if first == thread => Escape::Perhaps,
            State::Unseen => {
                *state = State::Touched(thread);
                Escape::Perhaps
            }
            _ => {
                *state = State::Escaped;
                Escape::Escaped
            }
        }
    }

    fn touch_object(&mut self, thread: ThreadId, object: ObjectId) -> Escape {
        let at = self.object(object);
        match at.state {
            State::Escaped => return Escape::Escaped,
            State::Made(owner, _) | State::Touched(owner) if owner != thread => {
                self.raise(object, Escape::Escaped);
            }
            State::Unseen => at.state = State::Touched(thread),
            _ => {}
        }
        self.of_object(object)
    }

    fn store(&mut self, thread: ThreadId, into: VarId, object: ObjectId, names: &Names) {
        self.objects_known = true;
        // Whoever stores a reference has it.
        self.touch_object(thread, object);
        let Some(holder) = names.var(into).and_then(|var| var.object) else {
            return self.raise(object, Escape::Escaped);
        };
        let level = self.touch_object(thread, holder);
        if level < Escape::Escaped {
            let refers = &mut self.object(holder).refers;
            if !refers.contains(&object) {
                refers.push(object);
            }
        }
        self.raise(object, level);
    }

    /// Raises an object, and what it refers to, at least to `level`.
    fn raise(&mut self, object: ObjectId, level: Escape) {
        let mut todo = std::mem::take(&mut self.todo);
        todo.push(object);
        while let Some(next) = todo.pop() {
            if self.of_object(next) >= level {
                continue;
            }
            let at = self.object(next);
            if level == Escape::Escaped {
                at.state = State::Escaped;
                todo.append(&mut at.refers);
            } else {
                if let State::Made(owner, _) = at.state {
                    at.state = State::Touched(owner);
                }
                todo.extend_from_slice(&at.refers);
            }
        }
        self.todo = todo;
    }

    fn forks_of(&self, thread: ThreadId) -> u32 {
        self.forks.get(thread.index()).copied().unwrap_or(0)
    }

    fn object(&mut self, object: ObjectId) -> &mut Object {
        if self.objects.len() <= object.index() {
            self.objects
                .resize_with(object.index() + 1, Object::default);
        }
        &mut self.objects[object.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atomsan_trace::names::{Definition, Var};
    use atomsan_trace::{SiteId, ThreadId};

    const A: ThreadId = ThreadId(0);
    const B: ThreadId = ThreadId(1);
    /// Variable `n` is a field of object `n`, for n < 4; variable 4 is a static.
    const STATIC: VarId = VarId(4);

    fn names() -> Names {
        let mut names = Names::default();
        for object in [0, 1, 2, 3]
            .map(|id| Some(ObjectId(id)))
            .into_iter()
            .chain([None])
        {
            names.define(Definition::Var(Var {
                object,
                ..Var::default()
            }));
        }
        names
    }

    fn after(ops: &[(ThreadId, Op)]) -> Escapes {
        let (mut escapes, names) = (Escapes::default(), names());
        for &(thread, op) in ops {
            match op.var() {
                Some(var) => {
                    escapes.touch(thread, var, &names);
                }
                None => escapes.step(
                    &Event {
                        thread,
                        site: SiteId::UNKNOWN,
                        op,
                    },
                    &names,
                ),
            }
        }
        escapes
    }

    fn alloc(object: u32) -> (ThreadId, Op) {
        (A, Op::Alloc(ObjectId(object)))
    }

    fn store(into: u32, object: u32) -> (ThreadId, Op) {
        let (into, object) = (VarId(into), ObjectId(object));
        (A, Op::RefStore { into, object })
    }

    fn levels<const N: usize>(escapes: &Escapes) -> [Escape; N] {
        std::array::from_fn(|object| escapes.of_object(ObjectId(object as u32)))
    }

    use Escape::{Escaped, Local, Perhaps};

    #[test]
    fn what_is_made_is_local_until_it_is_stored_in_a_static() {
        assert_eq!(levels(&after(&[alloc(0)])), [Local]);
        assert_eq!(levels(&after(&[alloc(0), store(STATIC.0, 0)])), [Escaped]);
    }

    #[test]
    fn escape_cascades_in_both_orders() {
        let made = [alloc(0), alloc(1), alloc(2)];
        // 0 refers to 1 refers to 2, then 0 escapes.
        let links = [store(0, 1), store(1, 2)];
        let local = after(&[&made[..], &links].concat());
        assert_eq!(levels(&local), [Local; 3]);
        let last = after(&[&made[..], &links, &[store(STATIC.0, 0)]].concat());
        assert_eq!(levels(&last), [Escaped; 3]);
        let first = after(&[&made[..], &[store(STATIC.0, 0)], &links].concat());
        assert_eq!(levels(&first), [Escaped; 3]);
    }

    #[test]
    fn cycles_of_references_end() {
        let cycle = [alloc(0), alloc(1), store(0, 1), store(1, 0), store(4, 1)];
        assert_eq!(levels(&after(&cycle)), [Escaped; 2]);
    }

    #[test]
    fn a_fork_may_hand_over_what_was_made_before_it() {
        let fork = (A, Op::Fork(B));
        let escapes = after(&[alloc(0), fork, alloc(1), alloc(2), store(0, 1)]);
        assert_eq!(levels(&escapes), [Perhaps, Perhaps, Local]);
        let taken = after(&[
            alloc(0),
            fork,
            alloc(1),
            store(0, 1),
            (B, Op::Read(VarId(0))),
        ]);
        assert_eq!(levels(&taken), [Escaped; 2], "with what it refers to");
    }

    #[test]
    fn a_second_thread_proves_the_escape() {
        let touch = |thread| (thread, Op::Write(VarId(0)));
        assert_eq!(levels(&after(&[alloc(0), touch(A)])), [Local]);
        assert_eq!(levels(&after(&[alloc(0), touch(A), touch(B)])), [Escaped]);
        assert_eq!(levels(&after(&[touch(A), touch(A)])), [Perhaps]);
        assert_eq!(levels(&after(&[touch(A), touch(B)])), [Escaped]);
        let stored_by_b = (
            B,
            Op::RefStore {
                into: VarId(1),
                object: ObjectId(0),
            },
        );
        assert_eq!(levels(&after(&[alloc(0), stored_by_b])), [Escaped]);
    }

    #[test]
    fn memory_that_is_reused_is_new() {
        let freed = [alloc(0), store(4, 0), (A, Op::Free(ObjectId(0))), alloc(0)];
        assert_eq!(levels(&after(&freed)), [Local]);
    }

    #[test]
    fn a_variable_without_object_is_decided_by_the_second_thread_or_is_a_static() {
        let (mut escapes, names) = (Escapes::default(), names());
        assert_eq!(escapes.touch(A, STATIC, &names), Perhaps);
        assert_eq!(escapes.touch(A, STATIC, &names), Perhaps);
        assert_eq!(escapes.touch(B, STATIC, &names), Escaped);
        assert_eq!(escapes.touch(A, STATIC, &names), Escaped);
        let mut escapes = after(&[alloc(0)]);
        assert_eq!(escapes.touch(A, STATIC, &names), Escaped, "a static");
        assert_eq!(escapes.touch(A, VarId(99), &names), Escaped, "undefined");
    }
}
