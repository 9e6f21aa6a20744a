//! What the runtime recorded, as a legal event stream.
//!
//! ```text
//! file ──► logs of slots ──► one order ──► events and names
//!  file       file            order         events (symbols, models, cells)
//! ```
//!
//! * [`mod@file`]: the recording as the runtime left it, complete or cut off.
//! * [`order`]: a total order of all records that respects the edges.
//! * [`symbols`]: what the program counters stand for, and the names of statics; `types`: of what is
//!   inside of them.
//! * [`models`]: which functions are synchronisation, and what their atomic operations mean.
//! * [`own_models`]: what a user says of further ones.
//! * [`answers`]: what a program that runs is told of its functions.
//! * [`atomics`]: what atomic operations of user code amount to.
//! * [`cells`]: which bytes are one variable.
//! * [`sharing`]: which memory threads share, while a program runs.
//! * [`test_name`]: which test a process was.
//! * [`vectors`]: which accesses are too wide to be seen.
//! * [`whose`]: whose a function is.
//! * [`handover`]: which variables are handed from thread to thread and need no check.
//! * [`events`]: all of it put together.
#![forbid(unsafe_code)]

pub mod answers;
pub mod atomics;
pub mod cells;
mod code;
#[cfg(test)]
mod damage;
pub mod events;
pub mod file;
#[path = "../../atomsan-rt/src/format.rs"]
pub mod format;
pub mod handover;
pub mod models;
mod names;
pub mod order;
pub mod own_models;
mod positions;
pub mod sharing;
pub mod symbols;
pub mod test_name;
mod types;
mod units;
pub mod vectors;
pub mod whose;
mod written;

pub use events::{Events, Named, Origin, Stream, Translator};
pub use file::Recording;
pub use test_name::TestName;
pub use whose::Options;
