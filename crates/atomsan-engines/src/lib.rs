//! The engines of atomsan: one module an algorithm, each `events in → findings out`.
//!
//! [`engine::Engine`] is the interface of all of them. The pieces that several algorithms share
//! have modules of their own.
#![forbid(unsafe_code)]

pub mod aerodrome;
pub mod atomizer;
pub mod blocks;
pub mod checker;
pub mod clocks;
pub mod conflicts;
pub mod cooperability;
pub mod culprit;
pub mod cycle;
pub mod deadlocks;
pub mod demotion;
mod dense;
pub mod doublechecker;
pub mod engine;
pub mod eraser;
pub mod escape;
pub mod forgetting;
pub mod graph;
pub mod held;
pub mod locksets;
pub mod marathon;
pub mod multilockset;
pub mod objects;
pub mod periods;
pub mod protecting;
pub mod reduction;
pub mod regions;
pub mod transactions;
mod vector;
pub mod velodrome;

pub use engine::{Context, Engine, Findings, Occurrence, Stat};
