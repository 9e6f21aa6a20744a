//! The definition of conflict serializability, as slowly and obviously as it can be written.
//!
//! Each event belongs to a transaction: the outermost open region of its thread, or itself alone.
//! Two events conflict if they are of one thread, or access one variable and one of them writes,
//! or one synchronises with the other. Each pair of conflicting events of different transactions
//! gives an edge from the earlier to the later one. A trace is serializable if there is no cycle.
//!
//! To know where a violation becomes complete, the events are added one by one; those edges of an
//! event that would close a cycle are the violation, and they alone are left out from then on, so
//! that the next violation can be seen.

use crate::trace::Trace;
use atomsan_trace::{Event, FunctionId, Op};

/// What the definition says about a trace.
#[derive(Debug, PartialEq, Eq)]
pub struct Truth {
    /// Transaction number of each event.
    pub transactions: Vec<usize>,
    /// Indices of the events that close a cycle.
    pub violations: Vec<u64>,
}

/// Which transaction each event belongs to.
pub fn transactions(trace: &Trace) -> Vec<usize> {
    let mut next = 0;
    let mut fresh = || {
        next += 1;
        next - 1
    };
    let threads = trace.events.iter().map(|e| e.thread.index() + 1).max();
    // Depth and transaction of each thread's open region.
    let mut open: Vec<(u32, usize)> = vec![(0, 0); threads.unwrap_or(0)];
    let mut result = Vec::new();
    for event in &trace.events {
        let (depth, current) = &mut open[event.thread.index()];
        let inside = *depth > 0;
        match event.op {
            Op::Begin(_) => {
                if *depth == 0 {
                    *current = fresh();
                }
                *depth += 1;
                result.push(*current);
                continue;
            }
            Op::End => *depth = depth.saturating_sub(1),
            _ => {}
        }
        result.push(if inside { *current } else { fresh() });
        // Blocking ends the transaction in the middle of its region.
        if inside && matches!(event.op, Op::Wait(_) | Op::Arrive(_) | Op::Yield) {
            *current = fresh();
        }
    }
    result
}

/// The outermost region in which an event happens. The end of a region that was split right before
/// is behind it: there is nothing in the second part.
pub fn region(trace: &Trace, index: u64) -> Option<FunctionId> {
    let of_thread = |event: &&Event| event.thread == trace.events[index as usize].thread;
    let mut open = Vec::new();
    let (mut ends, mut split) = (false, false);
    for event in trace.events[..=index as usize].iter().filter(of_thread) {
        if std::mem::take(&mut ends) {
            open.pop();
        }
        match event.op {
            Op::Begin(region) => open.push(region),
            Op::End if open.len() == 1 && split => open.clear(),
            Op::End => ends = true,
            _ => {}
        }
        split = matches!(event.op, Op::Wait(_) | Op::Arrive(_) | Op::Yield);
    }
    open.first().copied()
}

/// Whether `b`, after `a`, must stay after it.
pub fn conflict(a: &Event, b: &Event, sync_edges: bool) -> bool {
    if a.thread == b.thread {
        return true;
    }
    if let (Some(x), Some(y)) = (a.op.var(), b.op.var()) {
        return x == y && (a.op.writes() || b.op.writes());
    }
    sync_edges && synchronises(a, b)
}

fn synchronises(a: &Event, b: &Event) -> bool {
    match (a.op, b.op) {
        (Op::Fork(child), _) if child == b.thread => true,
        (_, Op::Join(child)) if child == a.thread => true,
        (Op::Release(l) | Op::Wait(l), Op::Acquire(m) | Op::AcquireShared(m) | Op::Woken(m)) => {
            l == m
        }
        (Op::ReleaseShared(l), Op::Acquire(m) | Op::Woken(m)) => l == m,
        (Op::Arrive(l), Op::Leave(m)) => l == m,
        _ => false,
    }
}

/// Judges a trace.
pub fn judge(trace: &Trace, sync_edges: bool) -> Truth {
    let transactions = transactions(trace);
    let count = transactions.iter().max().map_or(0, |max| max + 1);
    let mut edges = vec![Vec::<usize>::new(); count];
    let mut violations = Vec::new();
    for (later, event) in trace.events.iter().enumerate() {
        let to = transactions[later];
        let mut violated = false;
        for (earlier, other) in trace.events[..later].iter().enumerate() {
            let from = transactions[earlier];
            if from == to || edges[from].contains(&to) || !conflict(other, event, sync_edges) {
                continue;
            }
            if reaches(&edges, to, from) {
                violated = true;
            } else {
                edges[from].push(to);
            }
        }
        if violated {
            violations.push(later as u64);
        }
    }
    Truth {
        transactions,
        violations,
    }
}

/// Whether there is a path.
pub fn reaches(edges: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; edges.len()];
    let mut todo = vec![from];
    while let Some(at) = todo.pop() {
        if at == to {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            todo.extend(&edges[at]);
        }
    }
    false
}
