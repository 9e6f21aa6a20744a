//! Which function is not atomic, and between which two lines.
//!
//! A transaction did `first`, others got in, and then it did `second`. The culprit is not the
//! whole transaction but the innermost invocation that spans both events: the one that was open
//! before `first` and is still open. The two lines are the ones *in that invocation*: where it
//! made the access itself, or where it called what made it (if the trace says where calls are made).

use crate::engine::Occurrence;
use crate::regions::OpenFrame;
use atomsan_trace::finding::Culprit;
use atomsan_trace::{Names, SiteId, Stacks};

/// The culprit among the frames that are open (outermost first) at the time of `second`.
pub fn culprit(
    frames: &[OpenFrame],
    (names, stacks): (&Names, &Stacks),
    first: &Occurrence,
    second: &Occurrence,
) -> Culprit {
    let spanning = frames.partition_point(|frame| frame.index <= first.index);
    let depth = frames[..spanning].iter().filter(|f| !f.block).count();
    let line = |at: &Occurrence| {
        let calls: Vec<SiteId> = stacks.frames(at.stack).map(|(_, call)| call).collect();
        // Outermost first, the frame at `depth` is the first one above the culprit.
        let call = calls.len().checked_sub(depth + 1).map(|above| calls[above]);
        call.filter(|&call| names.is_placed(call))
            .unwrap_or(at.event.site)
    };
    let frame = frames[..spanning].last();
    Culprit {
        region: frame.map(|frame| frame.function),
        entered: frame.map_or(SiteId::UNKNOWN, |frame| frame.site),
        between: (line(first), line(second)),
    }
}
