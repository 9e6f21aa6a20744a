//! Findings that somebody has accepted stay in the document, with a mark.

use serde::{Deserialize, Serialize};

/// Why a finding is not held against the program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Accepted {
    /// By what.
    pub by: AcceptedBy,
    /// Where that is written: a file, with the line if it has a reason there.
    pub place: String,
    /// The reason that a person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What can accept a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AcceptedBy {
    /// A suppression in the configuration.
    Suppression,
    /// It was there before, and is in the baseline.
    Baseline,
}
