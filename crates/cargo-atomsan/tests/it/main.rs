//! Tests through the front door: the `atomsan` binary, as a user or a script calls it.

mod check;
mod published;
mod support;
mod traces;
