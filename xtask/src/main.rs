//! Chores of the project's developers.
fn main() {}
