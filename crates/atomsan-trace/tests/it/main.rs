//! Trace files, from the outside.

#![allow(unreachable_pub)]
mod atrace;
mod fuzz;
mod pipeline;
mod random;
mod rr;
mod std_text;
mod std_writer;
mod support;
