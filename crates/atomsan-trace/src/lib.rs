//! The vocabulary of atomsan: events, the names behind them, findings, and trace files.
//!
//! Everything flows one way. A reader ([`read`]) turns a file into [`Batch`]es: definitions of
//! names, then the events that use them. An engine (in `atomsan-engines`) turns events into
//! [`finding::Finding`]s. `atomsan-report` turns those into words.
#![forbid(unsafe_code)]

pub mod event;
pub mod finding;
pub mod format;
pub mod generate;
pub mod input;
mod intern;
pub mod names;
pub mod numbers;
pub mod read;
pub mod spec;
pub mod stacks;
pub mod write;

pub use event::{Event, FunctionId, LockId, ObjectId, Op, SiteId, ThreadId, VarId};
pub use finding::Finding;
pub use format::Format;
pub use names::{Definition, Names};
pub use spec::Spec;
pub use stacks::{StackId, Stacks};

/// A piece of a trace: names that are new, and the events that may use them.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Names that the events of this and later batches use.
    pub definitions: Vec<Definition>,
    /// What happened, in order.
    pub events: Vec<Event>,
}
