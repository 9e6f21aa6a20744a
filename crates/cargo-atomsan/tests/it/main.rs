//! Tests through the front door: the `atomsan` binary, as a user or a script calls it.

mod abi;
mod accept;
mod annotations;
mod check;
mod ci;
mod compilers;
mod config;
mod engines;
mod harmless;
mod kept;
mod limits;
mod living;
mod names;
mod online;
mod programs;
mod projects;
mod published;
mod recording;
mod render;
mod runs;
mod stream;
mod support;
mod survive;
mod traces;
mod two_runs;
