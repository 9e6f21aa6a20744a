//! Findings that somebody has accepted stay in the document, with a mark.

use crate::resolve::Report;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

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

impl Accepted {
    /// In a sentence.
    pub fn sentence(&self) -> String {
        match (&self.by, &self.reason) {
            (AcceptedBy::Baseline, _) => format!("accepted: it is in the baseline {}", self.place),
            (AcceptedBy::Suppression, Some(reason)) => {
                format!("accepted by {}: {reason}", self.place)
            }
            (AcceptedBy::Suppression, None) => format!("accepted by {}", self.place),
        }
    }
}

/// The marks of findings that are gathered anew, by fingerprint. A finding is accepted if it is
/// wherever it was found: somebody who has not accepted it must not be told that all is well.
#[derive(Debug, Default)]
pub(crate) struct Marks(HashMap<String, Option<Accepted>>);

impl Marks {
    pub(crate) fn of(findings: &[Report]) -> Marks {
        let mut marks: HashMap<String, Option<Accepted>> = HashMap::new();
        for report in findings {
            for print in report.prints() {
                let mark = marks
                    .entry(print.to_owned())
                    .or_insert_with(|| report.accepted.clone());
                if report.accepted.is_none() {
                    *mark = None;
                }
            }
        }
        Marks(marks)
    }

    pub(crate) fn put(self, findings: &mut [Report]) {
        for report in findings {
            let marks: Option<Vec<_>> = (report.prints())
                .filter_map(|print| self.0.get(print).cloned())
                .collect();
            report.accepted = marks.and_then(|marks| marks.into_iter().next());
            for other in &mut report.also {
                other.accepted = None;
            }
        }
    }
}
