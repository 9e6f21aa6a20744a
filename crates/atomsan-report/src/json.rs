//! One JSON object for one checked trace.

use crate::resolve::Report;
use serde::Serialize;

/// What one engine said.
#[derive(Clone, Debug, Serialize)]
pub struct EngineSummary {
    /// Its name.
    pub name: &'static str,
    /// Whether it found nothing.
    pub clean: bool,
    /// Static violations.
    pub findings: usize,
    /// Violations with repetitions.
    pub violations: u64,
    /// What a reader of the verdict must know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What it infers besides findings, as the text of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// What it counted.
    pub stats: serde_json::Map<String, serde_json::Value>,
}

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct Document<'a> {
    /// The version of this schema.
    pub version: u32,
    /// What was checked.
    pub file: &'a str,
    /// The engines that were run, separated by commas.
    pub engine: String,
    /// How many events were checked.
    pub events: u64,
    /// How long it took.
    pub seconds: f64,
    /// The most memory that was resident, in bytes, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// What was left out: bad lines, a truncated end.
    pub warnings: Vec<String>,
    /// Each engine.
    pub engines: Vec<EngineSummary>,
    /// All findings.
    pub findings: &'a [Report],
}

impl Document<'_> {
    /// The schema version that this crate writes.
    pub const VERSION: u32 = 1;
}
