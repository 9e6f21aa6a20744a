//! Trace files, from the outside.

mod pipeline;
mod rr;
mod std_text;
mod support;
