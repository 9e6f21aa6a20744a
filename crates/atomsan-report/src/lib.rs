//! What a finding is to a person.
//!
//! Engines speak in ids. [`fold()`] leaves one finding for each mistake, and [`resolve()`] turns
//! it into a [`Report`]: names, places, a [`Rank`], a fingerprint that survives edits; [`agree()`]
//! merges what several engines say. The renderers
//! ([`terminal`], [`json`]) only ever see reports.
#![forbid(unsafe_code)]

mod agree;
mod fold;
pub mod json;
mod rank;
pub mod resolve;
pub mod terminal;
mod words;

pub use agree::{Agreeing, agree};
pub use fold::fold;
pub use json::Document;
pub use rank::Rank;
pub use resolve::{Place, Report, Step, resolve, resolve_call};
