//! The document: one JSON object for one checked trace or process.
//!
//! It is everything that is known about a check, by name and owned, so that a document that was
//! written down can be read back and rendered again in every format. `docs/JSON.md` is its
//! reference: fields are added without notice and may be missing when an older document is read.

use crate::resolve::{Place, Report};
use crate::source;
use crate::source::{Excerpt, Sources};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How many lines around one that a finding is about are kept.
const AROUND: u32 = 6;

/// What one engine said.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EngineSummary {
    /// Its name.
    pub name: String,
    /// Whether it found nothing.
    pub clean: bool,
    /// Static violations.
    pub findings: usize,
    /// Violations with repetitions.
    pub violations: u64,
    /// What a reader of the verdict must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What it infers besides findings, as the text of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// What it counted.
    #[serde(default)]
    pub stats: serde_json::Map<String, serde_json::Value>,
}

/// A thread of the program.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Thread {
    /// As findings call it.
    pub name: String,
    /// Where it was started, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned: Option<Place>,
}

/// A test that was a process of its own, as nextest names it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Test {
    /// The binary it is in.
    pub binary: String,
    /// Its path in there.
    pub name: String,
}

/// How much was merged into one document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Merged {
    /// Documents.
    pub documents: u64,
    /// Processes or traces.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
}

/// The document.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Document {
    /// The version of this schema.
    pub version: u32,
    /// What was checked.
    pub file: String,
    /// The engines that were run, separated by commas.
    pub engine: String,
    /// How many events were checked.
    pub events: u64,
    /// How long the check took.
    pub seconds: f64,
    /// The most memory that was resident, in bytes, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// The process that was recorded; none for a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u64>,
    /// The test that this process was, if nextest has started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// What it was merged from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
    /// What was left out: bad lines, a truncated end.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<Thread>,
    /// Each engine.
    #[serde(default)]
    pub engines: Vec<EngineSummary>,
    /// All findings, the worst first.
    pub findings: Vec<Report>,
    /// The lines that findings are about, as they were; see [`Document::keep_sources`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Excerpt>,
}

/// Why a document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not a document at all, or a damaged one.
    #[error("this is not a JSON document of atomsan: {0}")]
    Damaged(#[from] serde_json::Error),
    /// It has another version.
    #[error(
        "the document has version {0}, and this atomsan reads version {ours}; \
         use the atomsan that wrote it",
        ours = Document::VERSION
    )]
    Version(u64),
}

impl Document {
    /// The schema version that this crate writes.
    pub const VERSION: u32 = 1;

    /// Reads what `--json` wrote: documents one after the other.
    pub fn read_all(text: &str) -> Result<Vec<Document>, ReadError> {
        let versions = serde_json::Deserializer::from_str(text).into_iter::<Version>();
        for version in versions {
            match version?.version {
                version if version == u64::from(Document::VERSION) => {}
                version => return Err(ReadError::Version(version)),
            }
        }
        let documents = serde_json::Deserializer::from_str(text).into_iter();
        Ok(documents.collect::<Result<_, _>>()?)
    }

    /// Copies the lines that findings are about into the document, so that it can be rendered
    /// when the files have changed, or elsewhere.
    pub fn keep_sources(&mut self, sources: &Sources) {
        let mut kept: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        let all = (self.findings.iter()).flat_map(|one| [one].into_iter().chain(&one.also));
        for report in all {
            let culprit = &report.culprit;
            let places = (report.witness.iter())
                .flat_map(|step| [&step.place].into_iter().chain(&step.stack))
                .map(|place| (place.file.as_deref(), place.line));
            let lines = culprit
                .lines
                .iter()
                .map(|&line| (culprit.file.as_deref(), Some(line)));
            for (file, line) in places.chain(lines) {
                let (Some(file), Some(line)) = (file, line) else {
                    continue;
                };
                let lines = kept.entry(file).or_default();
                lines.extend(line.saturating_sub(AROUND)..=line.saturating_add(AROUND));
            }
            if let (Some(file), Some(function), Some(&line)) =
                (&culprit.file, &culprit.function, culprit.lines.first())
            {
                let heading = source::heading(&sources.lines(file), function, line);
                let lines = kept.entry(file).or_default();
                lines.extend(heading);
            }
        }
        let excerpts = kept.into_iter().map(|(file, numbers)| {
            let lines = sources.lines(file);
            let known = |&number: &u32| Some((number, lines.get(&number)?.clone()));
            Excerpt {
                file: file.to_owned(),
                lines: numbers.iter().filter_map(known).collect(),
            }
        });
        self.sources = excerpts.filter(|one| !one.lines.is_empty()).collect();
    }

    /// The document as one line.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("names and numbers are always JSON")
    }
}

/// All that is looked at before the version is known.
#[derive(Deserialize)]
struct Version {
    version: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let document = Document {
            version: Document::VERSION,
            file: "t.std".to_owned(),
            threads: vec![Thread::default()],
            ..Document::default()
        };
        let text = format!("{}\n{}\n", document.to_line(), document.to_line());
        let read = Document::read_all(&text).unwrap();
        assert_eq!(read, [document.clone(), document]);
        assert_eq!(Document::read_all("").unwrap(), []);
    }

    #[test]
    fn another_version_and_another_file_are_errors() {
        let error = |text: &str| Document::read_all(text).unwrap_err().to_string();
        assert!(error(r#"{"version":2,"new":[]}"#).contains("version 2"));
        assert!(error(r#"{"version":1}"#).contains("missing field"));
        assert!(error("[lost-update]").contains("not a JSON document of atomsan"));
    }
}
