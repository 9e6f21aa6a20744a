//! Which invocations two logged events have in common.
//!
//! The culprit of a violation is the innermost invocation that was open at both of two events of
//! one thread. When PCD finds the violation, both events are past, so the log has to remember.
//! All stacks of open regions and functions form a tree, and a node of it is the stack of one
//! event. That is not enough: a loop that calls `get` twice has the same stack in both calls, and
//! yet they are two invocations. So each event also remembers the lowest depth that its thread's
//! stack has had since the event that was logged before it; the invocations two events share are
//! those below the lowest depth in between.

use crate::Occurrence;
use crate::regions::OpenFrame;
use atomsan_trace::{FunctionId, SiteId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// The open invocations of an event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// A node of the tree.
    stack: u32,
    /// The lowest depth since the event logged before.
    lowest: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Node {
    parent: u32,
    function: FunctionId,
    site: SiteId,
    block: bool,
    atomic: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    stack: u32,
    depth: u32,
    lowest: u32,
}

/// The tree, and each thread's place in it.
#[derive(Debug, Default)]
pub struct Frames {
    /// Node `n` is `nodes[n - 1]`; 0 is the empty stack.
    nodes: Vec<Node>,
    children: HashMap<Node, u32, FxBuildHasher>,
    threads: Vec<Thread>,
}

impl Frames {
    /// The open frames of a thread have changed to `open`: at most one more, or some less.
    pub fn changed(&mut self, thread: usize, open: &[OpenFrame]) {
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, Thread::default());
        }
        let state = &mut self.threads[thread];
        while state.depth as usize > open.len() {
            state.stack = self.nodes[state.stack as usize - 1].parent;
            state.depth -= 1;
        }
        state.lowest = state.lowest.min(state.depth);
        if let Some(frame) = open.get(state.depth as usize) {
            let node = Node {
                parent: state.stack,
                function: frame.function,
                site: frame.site,
                block: frame.block,
                atomic: frame.atomic,
            };
            let nodes = &mut self.nodes;
            state.stack = *self.children.entry(node).or_insert_with(|| {
                nodes.push(node);
                nodes.len() as u32
            });
            state.depth += 1;
        }
    }

    /// The span of an event of a thread that is about to be logged.
    #[inline]
    pub fn log(&mut self, thread: usize) -> Span {
        let Some(state) = self.threads.get_mut(thread) else {
            return Span::default();
        };
        let lowest = std::mem::replace(&mut state.lowest, state.depth);
        Span {
            stack: state.stack,
            lowest,
        }
    }

    /// The frames at the last event of `way`, the events logged after `first`, as
    /// [`crate::culprit`] wants them: only those that were open at `first` have an index that is
    /// not behind it.
    pub fn spanning(&self, first: &Occurrence, way: impl Iterator<Item = Span>) -> Vec<OpenFrame> {
        let mut last = Span::default();
        let mut lowest = u32::MAX;
        for span in way {
            last = span;
            lowest = lowest.min(span.lowest);
        }
        let mut frames = self.frames(last);
        for frame in frames.iter_mut().skip(lowest as usize) {
            frame.index = first.index + 1;
        }
        frames
    }

    fn frames(&self, span: Span) -> Vec<OpenFrame> {
        let mut frames = Vec::new();
        let mut at = span.stack;
        while at != 0 {
            let node = self.nodes[at as usize - 1];
            frames.push(OpenFrame {
                function: node.function,
                site: node.site,
                index: 0,
                block: node.block,
                atomic: node.atomic,
                calls: 0,
            });
            at = node.parent;
        }
        frames.reverse();
        let mut calls = 0;
        for frame in &mut frames {
            calls += usize::from(!frame.block);
            frame.calls = calls;
        }
        frames
    }
}
