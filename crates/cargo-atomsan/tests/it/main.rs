//! Tests through the front door: the `atomsan` binary, as a user or a script calls it.

mod annotations;
mod check;
mod online;
mod programs;
mod published;
mod recording;
mod support;
mod traces;
