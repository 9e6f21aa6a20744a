//! Tests through the front door: the `atomsan` binary, as a user or a script calls it.

mod abi;
mod accept;
mod annotations;
mod check;
mod config;
mod harmless;
mod living;
mod programs;
mod published;
mod recording;
mod render;
mod support;
mod traces;
