//! Which function is not atomic, and between which two lines.
//!
//! A transaction did `first`, others got in, and then it did `second`. The culprit is not the
//! whole transaction but the innermost invocation that spans both events: the one that was open
//! before `first` and is still open. The two lines are the ones *in that invocation*: where it
//! made the access itself, or where it called what made it (if the trace says where calls are made).

use crate::engine::Occurrence;
use crate::regions::{OpenFrame, calls_since};
use atomsan_trace::finding::Culprit;
use atomsan_trace::{FunctionId, Names, SiteId, StackId, Stacks};

/// An event: its calls, and its place.
pub type Spot = (StackId, SiteId);

/// The culprit among the frames that are open (outermost first) at the time of `second`.
pub fn culprit(
    frames: &[OpenFrame],
    tables: (&Names, &Stacks),
    first: &Occurrence,
    second: &Occurrence,
) -> Culprit {
    let spanning = frames.partition_point(|frame| frame.index <= first.index);
    let depth = calls_since(frames, first.index);
    let line = |at: &Occurrence| line(depth, tables, (at.stack, at.event.site));
    let frame = frames[..spanning].last();
    Culprit {
        region: frame.map(|frame| frame.function),
        entered: frame.map_or(SiteId::UNKNOWN, |frame| frame.site),
        between: (line(first), line(second)),
    }
}

/// The culprit where only the number of calls is known that were open all the way from one event
/// to the other. `region` is the transaction's, where it was entered, and in how many calls
/// (its own, if it is a function).
pub fn culprit_in_common(
    calls: usize,
    region: (Option<FunctionId>, SiteId, usize),
    tables: (&Names, &Stacks),
    first: Spot,
    second: Spot,
) -> Culprit {
    let (mut function, mut entered, depth) = region;
    let depth = depth.max(calls);
    if depth > region.2 {
        let open: Vec<_> = tables.1.frames(second.0).collect();
        if let Some(&(innermost, call)) = open.len().checked_sub(depth).and_then(|at| open.get(at))
        {
            (function, entered) = (Some(innermost), call);
        }
    }
    Culprit {
        region: function,
        entered,
        between: (line(depth, tables, first), line(depth, tables, second)),
    }
}

/// The line of an event in the invocation at a depth: its own, or where the call above was made.
fn line(depth: usize, (names, stacks): (&Names, &Stacks), (stack, site): Spot) -> SiteId {
    let calls: Vec<SiteId> = stacks.frames(stack).map(|(_, call)| call).collect();
    // Outermost first, the frame at `depth` is the first one above the culprit.
    let call = calls.len().checked_sub(depth + 1).map(|above| calls[above]);
    call.filter(|&call| names.is_placed(call)).unwrap_or(site)
}
