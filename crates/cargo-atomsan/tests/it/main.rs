//! Tests through the front door: the `atomsan` binary, as a user or a script calls it.

mod accept;
mod annotations;
mod check;
mod config;
mod living;
mod programs;
mod published;
mod recording;
mod support;
mod traces;
