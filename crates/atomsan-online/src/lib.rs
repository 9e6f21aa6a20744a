//! DoubleChecker while the program runs.
//!
//! ```text
//! program ──edges between transactions──▶ links ──components──▶ chunks ──parts of logs──▶ replay
//!    ▲  │                                                         │                         │ events
//!    │  └──which functions are regions?──▶ questions              │ unread                  ▼
//!    └──────────────────────── chunks ────────────────────────────┘                  DoubleChecker
//! ```
//!
//! The runtime inside of the program writes a log for each thread, and an edge into it whenever
//! memory changes its owner (`atomsan_rt::ownership`). That *is* imprecise cycle detection: every
//! dependence between two threads is implied by edges. The program also knows which of its functions
//! are regions, because it asks, and writes down which transactions an edge is between
//! (`atomsan_rt::regions`). Here, in another process, these edges go into the imprecise graph
//! ([`Idg`](atomsan_engines::doublechecker::idg::Idg)), and nothing else is looked at. When a
//! transaction is in a strongly connected component, the parts of the logs that the component has
//! are made into events by the code that reads whole recordings, and the engine checks those.
//!
//! # Why that is the verdict of the whole recording
//!
//! A cycle of dependences is a cycle of edges, so it is inside of a component when the last of its
//! transactions ends. In which order two accesses of the component were is told by edges, but not by
//! one from the one to the other: where the program knows of an order already, by way of other
//! threads, it writes no further edge. All transactions on that way are in the component, if those
//! that are still open count too. So their logs, as far as they go, take part in putting the
//! others in order. Then the component by itself has the cycles that it has in the whole, and no
//! others.
//!
//! A transaction that has no edge of its own is no node. If it lies between two of the component, in
//! the same thread, it belongs to the component too: the edge that leaves the later one may stand for
//! what the earlier one did.
//!
//! # Other engines
//!
//! Engines that work on a stream of events can check a running program too: then everything is
//! made into events, in the order in which the logs are followed (`stream`).
//!
//! # What is missed
//!
//! * A program can ask for some six thousand places. What it calls from others, outside of all
//!   regions, is no region.
//! * In a first run, only the next sixteen regions of a thread are named after an edge, if they have
//!   none of their own.
//! * Where an inlined function begins and ends is told by shared accesses only (`calls` of
//!   `atomsan-recording`). Here, memory counts as shared from the moment that a second thread
//!   touches it. Before, an inlined region is not cut where it should be.
//! * When a component has more transactions than [`Options::component_limit`], or what is kept exceeds
//!   [`Options::memory`] ([`Summary::forgotten`]), all that was before is forgotten.
#![forbid(unsafe_code)]

mod chunks;
mod first;
mod follow;
mod links;
mod live;
mod nodes;
mod notes;
mod orders;
mod origins;
mod parts;
mod questions;
mod single;
mod stream;
mod uses;
mod visited;
mod walk;

pub use follow::{Follower, Haste, Options, Summary};
pub use stream::Make;
