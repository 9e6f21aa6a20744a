//! Tests of the engines through their interface: the papers' examples by name, and random traces
//! against oracles.

mod atomizer;
mod eraser;
mod files;
mod held;
mod interleavings;
mod locksets;
mod multilockset;
mod oracle;
mod random;
mod reduction;
mod rules;
mod trace;
