//! Tests of the engines through their interface: the papers' examples by name, and random traces
//! against oracles.
#![allow(unreachable_pub)]

mod blocks;
mod deadlocks;
mod held;
mod interleavings;
mod locksets;
mod oracle;
mod random;
mod serializability;
mod sets;
mod trace;
