//! Tests of the engines through their interface: the papers' examples by name, and random traces
//! against oracles.
#![allow(unreachable_pub)]

mod atomic_sets;
mod atomizer;
mod blocks;
mod cooperability;
mod deadlocks;
mod demotion;
mod doublechecker;
mod eraser;
mod files;
mod held;
mod interleavings;
mod locksets;
mod marathon;
mod multilockset;
mod oracle;
mod random;
mod reduction;
mod rules;
mod serializability;
mod sets;
mod stretches;
mod trace;
