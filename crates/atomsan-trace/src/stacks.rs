//! Call stacks as small ids.
//!
//! A stack is its innermost frame on top of another stack, so all stacks of a program form a
//! tree, and each node of the tree is made once. A thread's current stack is one id; entering a
//! function looks up a child, leaving it goes to the parent, and an engine can keep the stack of
//! an access in four bytes.

use crate::event::{Event, FunctionId, Op, SiteId};
use hashbrown::HashMap;

/// A call stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StackId(pub u32);

impl StackId {
    /// The stack of a thread that is in no known function.
    pub const EMPTY: StackId = StackId(0);
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Node {
    parent: StackId,
    function: FunctionId,
    call: SiteId,
}

/// All call stacks seen, and the current one of each thread.
#[derive(Debug)]
pub struct Stacks {
    nodes: Vec<Node>,
    children: HashMap<Node, StackId>,
    current: Vec<StackId>,
}

impl Default for Stacks {
    fn default() -> Self {
        let root = Node {
            parent: StackId::EMPTY,
            function: FunctionId(u32::MAX),
            call: SiteId::UNKNOWN,
        };
        Stacks {
            nodes: vec![root],
            children: HashMap::new(),
            current: Vec::new(),
        }
    }
}

impl Stacks {
    /// Follows one event and returns the stack it happened in. The stack of `Enter` is the
    /// caller's, the stack of `Exit` that of the function that is left.
    #[inline]
    pub fn step(&mut self, event: &Event) -> StackId {
        let here = self
            .current
            .get(event.thread.index())
            .copied()
            .unwrap_or_default();
        match event.op {
            Op::Enter(function) => self.enter(event, here, function),
            Op::Exit(function) => self.exit(event, here, function),
            _ => {}
        }
        here
    }

    fn enter(&mut self, event: &Event, here: StackId, function: FunctionId) {
        let node = Node {
            parent: here,
            function,
            call: event.site,
        };
        let next = StackId(self.nodes.len() as u32);
        let stack = *self.children.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            next
        });
        let thread = event.thread.index();
        if self.current.len() <= thread {
            self.current.resize(thread + 1, StackId::EMPTY);
        }
        self.current[thread] = stack;
    }

    fn exit(&mut self, event: &Event, here: StackId, function: FunctionId) {
        let mut at = here;
        while at != StackId::EMPTY {
            let node = self.nodes[at.0 as usize];
            at = node.parent;
            if node.function == function {
                self.current[event.thread.index()] = at;
                return;
            }
        }
    }

    /// The frames of a stack, innermost first: the function, and where it was called.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = (FunctionId, SiteId)> + '_ {
        let mut at = stack;
        std::iter::from_fn(move || {
            if at == StackId::EMPTY {
                return None;
            }
            let node = self.nodes.get(at.0 as usize)?;
            at = node.parent;
            Some((node.function, node.call))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ThreadId;

    fn event(op: Op) -> Event {
        Event {
            thread: ThreadId(0),
            site: SiteId(7),
            op,
        }
    }

    #[test]
    fn enter_and_exit_balance() {
        let (f, g) = (FunctionId(1), FunctionId(2));
        let mut stacks = Stacks::default();
        assert_eq!(stacks.step(&event(Op::Enter(f))), StackId::EMPTY);
        let in_f = stacks.step(&event(Op::Enter(g)));
        let in_g = stacks.step(&event(Op::Yield));
        assert_eq!(
            stacks.frames(in_g).map(|(f, _)| f).collect::<Vec<_>>(),
            [g, f]
        );
        assert_eq!(stacks.step(&event(Op::Exit(g))), in_g);
        assert_eq!(stacks.step(&event(Op::Yield)), in_f);
        assert_eq!(stacks.step(&event(Op::Enter(g))), in_f);
        assert_eq!(stacks.step(&event(Op::Yield)), in_g, "made once");
    }

    #[test]
    fn exit_unwinds_to_its_own_frame_and_ignores_strangers() {
        let (f, g, h) = (FunctionId(1), FunctionId(2), FunctionId(3));
        let mut stacks = Stacks::default();
        stacks.step(&event(Op::Enter(f)));
        stacks.step(&event(Op::Enter(g)));
        stacks.step(&event(Op::Exit(h)));
        stacks.step(&event(Op::Exit(f)));
        assert_eq!(stacks.step(&event(Op::Exit(f))), StackId::EMPTY);
    }
}
