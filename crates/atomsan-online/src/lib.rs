//! DoubleChecker while the program runs.
//!
//! ```text
//! program ──logs, edges──▶ live ──records──▶ follow ──transactions──▶ imprecise graph
//!    ▲                      │                                              │ components
//!    └──────── chunks ──────┘                       events ◀── replay ◀────┘
//!                                                     └──▶ DoubleChecker ──▶ findings
//! ```
//!
//! The runtime inside of the program writes a log for each thread, and an edge into it whenever
//! memory changes its owner (`atomsan_rt::ownership`). That *is* imprecise cycle detection: every
//! dependence between two threads is implied by edges. Here, in another process, the logs are
//! followed as they are written and cut into transactions; edges go into the imprecise graph
//! ([`Idg`](atomsan_engines::doublechecker::idg::Idg)), and accesses are only kept, not looked at. A
//! transaction that cannot be in a cycle is dropped when it ends. When one is in a strongly
//! connected component, the component's logs are made into events by the code that reads whole
//! recordings, and the engine checks those.
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
//! # Other engines
//!
//! Engines that work on a stream of events can check a running program too: then everything is
//! made into events, in the order in which the logs are followed (`stream`).
//!
//! # What is missed
//!
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
mod questions;
mod single;
mod stream;

pub use follow::{Follower, Options, Summary};
pub use stream::Make;
