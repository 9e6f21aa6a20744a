//! What the runtime recorded, as a legal event stream.
//!
//! ```text
//! file ──► logs of slots ──► one order ──► events and names
//!  file       file            order         events (symbols, models, cells)
//! ```
//!
//! * [`mod@file`]: the recording as the runtime left it, complete or cut off.
//! * [`order`]: a total order of all records that respects the edges.
//! * [`symbols`]: what the program counters stand for.
//! * [`models`]: which functions are synchronisation, and what their atomic operations mean.
//! * [`cells`]: which bytes are one variable.
//! * [`events`]: all of it put together.
#![forbid(unsafe_code)]

pub mod cells;
pub mod events;
pub mod file;
#[path = "../../atomsan-rt/src/format.rs"]
pub mod format;
pub mod models;
pub mod order;
pub mod symbols;

pub use events::{Events, Options, Translator};
pub use file::Recording;
