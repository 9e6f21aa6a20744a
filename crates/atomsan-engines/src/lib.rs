//! The engines of atomsan: one module an algorithm, each `events in → findings out`.
//!
//! [`engine::Engine`] is the interface of all of them. The pieces that several algorithms share
//! have modules of their own.
#![forbid(unsafe_code)]

pub mod aerodrome;
pub mod checker;
pub mod clocks;
pub mod conflicts;
pub mod culprit;
pub mod engine;
pub mod graph;
pub mod regions;
pub mod transactions;
pub mod velodrome;

pub use engine::{Context, Engine, Findings, Occurrence, Stat};
