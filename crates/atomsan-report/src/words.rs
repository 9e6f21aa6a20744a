//! The words for anomalies, criteria, states and operations: one place, used by all renderers.

use atomsan_trace::finding::{Anomaly, Criterion, Role, Status};
use atomsan_trace::{Names, Op};
use std::borrow::Cow;

pub(crate) const MISSING_YIELD: &str = "missing-yield";

/// The code that `explain` takes, and machines compare.
pub(crate) fn code(anomaly: Anomaly) -> &'static str {
    match anomaly {
        Anomaly::LostUpdate => "lost-update",
        Anomaly::IntermediateState => "intermediate-state",
        Anomaly::Overwritten => "overwritten",
        Anomaly::NonRepeatableRead => "non-repeatable-read",
        Anomaly::InconsistentPair => "inconsistent-pair",
        Anomaly::Cycle(_) => "cycle",
        Anomaly::NotSerializable => "not-serializable",
        Anomaly::NotReducible => "not-reducible",
        Anomaly::MissingYield => MISSING_YIELD,
    }
}

/// All codes.
pub const CODES: &[&str] = &[
    "lost-update",
    "intermediate-state",
    "overwritten",
    "non-repeatable-read",
    "inconsistent-pair",
    "cycle",
    "not-serializable",
    "not-reducible",
    MISSING_YIELD,
];

/// One sentence that says what went wrong.
pub(crate) fn sentence(anomaly: Anomaly) -> Cow<'static, str> {
    Cow::Borrowed(match anomaly {
        Anomaly::LostUpdate => "it wrote from a value that another thread had changed since",
        Anomaly::IntermediateState => "another thread saw the state between two of its writes",
        Anomaly::Overwritten => "another thread overwrote what it had written",
        Anomaly::NonRepeatableRead => "two of its reads disagree: another thread wrote in between",
        Anomaly::InconsistentPair => "another thread ran between two of its steps",
        Anomaly::Cycle(n) => {
            return Cow::Owned(format!(
                "it must come both before and after itself, through {n} transactions"
            ));
        }
        Anomaly::NotSerializable => "it must come both before and after another transaction",
        Anomaly::NotReducible => "another thread can run between its steps",
        Anomaly::MissingYield => "another thread interferes where there is no yield",
    })
}

/// The criterion's name.
pub(crate) fn criterion(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::ConflictSerializability => "conflict-serializability",
        Criterion::ViewSerializability => "view-serializability",
        Criterion::Reducibility => "reducibility",
        Criterion::Cooperability => "cooperability",
        Criterion::AtomicSetSerializability => "atomic-set-serializability",
    }
}

/// How it is known.
pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Observed => "observed",
        Status::Predicted => "predicted",
        Status::Confirmed => "confirmed",
    }
}

/// What a step is to the finding, if there is something to say.
pub(crate) fn role(role: Role) -> Option<&'static str> {
    match role {
        Role::Access => None,
        Role::Entered => Some("entered here"),
        Role::Committed => Some("committed here"),
        Role::Violated => Some("not allowed here"),
    }
}

/// The verb of an operation.
pub(crate) fn verb(op: Op) -> &'static str {
    match op {
        Op::Begin(_) => "begin",
        Op::End => "end",
        Op::Read(_) => "read",
        Op::Write(_) => "write",
        Op::AtomicLoad(_) => "atomic load",
        Op::AtomicStore(_) => "atomic store",
        Op::AtomicRmw(_) => "atomic update",
        Op::AtomicRmwFailed(_) => "failed exchange",
        Op::Acquire(_) => "acquire",
        Op::Release(_) => "release",
        Op::AcquireShared(_) => "acquire shared",
        Op::ReleaseShared(_) => "release shared",
        Op::Wait(_) => "wait",
        Op::Woken(_) => "woken",
        Op::Notify(_) => "notify",
        Op::Fork(_) => "fork",
        Op::Join(_) => "join",
        Op::Arrive(_) => "arrive at",
        Op::Leave(_) => "leave",
        Op::Yield => "yield",
        Op::Enter(_) => "enter",
        Op::Exit(_) => "exit",
        Op::Alloc(_) => "allocate",
        Op::Free(_) => "free",
        Op::RefStore { .. } => "store reference",
    }
}

/// A verb of [`verb`] in a sentence about a thread.
pub(crate) fn phrase(verb: &str) -> &str {
    match verb {
        "begin" => "begins",
        "end" => "ends",
        "read" => "reads",
        "write" => "writes",
        "atomic load" => "loads",
        "atomic store" => "stores to",
        "atomic update" => "updates",
        "failed exchange" => "fails to exchange",
        "acquire" => "takes",
        "release" => "lets go of",
        "acquire shared" => "takes, to read,",
        "release shared" => "lets go, after reading, of",
        "wait" => "waits for",
        "woken" => "is woken from",
        "notify" => "notifies",
        "fork" => "starts",
        "join" => "joins",
        "arrive at" => "arrives at",
        "leave" => "leaves",
        "yield" => "yields",
        "enter" => "enters",
        "exit" => "leaves",
        "allocate" => "allocates",
        "free" => "frees",
        "store reference" => "stores",
        other => other,
    }
}

/// What an operation acts on, by name.
pub(crate) fn target(op: Op, names: &Names) -> Option<String> {
    if let Some(var) = op.var() {
        return Some(names.var_name(var).into_owned());
    }
    if let Some(lock) = op.lock() {
        return Some(names.lock(lock).into_owned());
    }
    match op {
        Op::Begin(f) | Op::Enter(f) | Op::Exit(f) => Some(names.function_name(f).into_owned()),
        Op::Fork(t) | Op::Join(t) => Some(names.thread(t).into_owned()),
        Op::Alloc(o) | Op::Free(o) => Some(names.object(o).into_owned()),
        Op::RefStore { into, object } => Some(format!(
            "{} into {}",
            names.object(object),
            names.var_name(into)
        )),
        _ => None,
    }
    .filter(|name| !name.is_empty())
}
