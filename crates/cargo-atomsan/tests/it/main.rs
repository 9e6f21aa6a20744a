//! Tests through the front door: the `atomsan` binary, as a user or a script calls it.

mod abi;
mod accept;
mod annotations;
mod check;
mod ci;
mod compilers;
mod config;
mod harmless;
mod limits;
mod living;
mod online;
mod programs;
mod projects;
mod published;
mod recording;
mod render;
mod support;
mod traces;
