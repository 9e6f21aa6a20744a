//! Tests of the engines through their interface: the papers' examples by name, and random traces
//! against oracles.
#![allow(unreachable_pub)]

mod oracle;
mod random;
mod serializability;
mod trace;
