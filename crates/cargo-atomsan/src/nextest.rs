//! The file that nextest writes about the tests that it has run.
//!
//! nextest runs each test in a process of its own, and, if its profile says so, leaves a JUnit file
//! in the workspace's `target/nextest`. It is over before anything is checked, so the findings are put into
//! that file afterwards: a test that has one fails there, and a CI server that reads the file needs to know
//! of nothing else.

use crate::{output, render};
use atomsan_report::{Document, junit};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use toml::de::DeTable;

/// Where nextest keeps its files, and since when they count.
#[derive(Debug)]
pub(crate) struct Nextest {
    store: PathBuf,
    started: SystemTime,
}

impl Nextest {
    /// That of a workspace, from now on; `arguments` are nextest's.
    pub(crate) fn new(root: &Path, arguments: &[OsString]) -> Nextest {
        let configured = configuration(root, arguments)
            .and_then(|path| std::fs::read_to_string(path).ok())
            .and_then(|text| store(&text));
        Nextest {
            store: root.join(configured.as_deref().unwrap_or("target/nextest")),
            started: SystemTime::now(),
        }
    }

    /// Puts the findings of tests into the files that were written since; `judge` leaves those that
    /// count. That the tests have run and are told of does not depend on it, so what goes wrong is only said.
    pub(crate) fn add_findings(&self, documents: &[Document], judge: impl Fn(&mut Document)) {
        let tests = documents.iter().filter(|document| document.test.is_some());
        let mut tests: Vec<Document> = tests.cloned().collect();
        tests.iter_mut().for_each(judge);
        if tests.iter().all(|test| test.findings.is_empty()) {
            return;
        }
        let sources = render::sources(&tests);
        for path in self.files() {
            let add = || -> anyhow::Result<()> {
                let before = std::fs::read_to_string(&path)?;
                let after = junit::add_findings(&before, &tests, &sources)?;
                // A reader sees the one or the other.
                let folder = path.parent().unwrap_or(Path::new("."));
                let file = tempfile::NamedTempFile::new_in(folder)?;
                std::fs::write(file.path(), after)?;
                std::fs::set_permissions(file.path(), std::fs::metadata(&path)?.permissions())?;
                file.persist(&path)?;
                Ok(())
            };
            if let Err(error) = add() {
                output::warn(&format!(
                    "the findings are not in nextest's {}: {error:#}",
                    path.display()
                ));
            }
        }
    }

    /// The files that profiles have got since.
    fn files(&self) -> Vec<PathBuf> {
        let profiles = self.store.read_dir().into_iter().flatten().flatten();
        let files = profiles.flat_map(|profile| profile.path().read_dir().into_iter().flatten());
        let is_new = |path: &PathBuf| {
            path.extension().is_some_and(|ending| ending == "xml")
                && std::fs::metadata(path)
                    .and_then(|file| file.modified())
                    // Times of files are coarse.
                    .is_ok_and(|time| time + crate::online::COARSE >= self.started)
        };
        (files.flatten())
            .map(|file| file.path())
            .filter(is_new)
            .collect()
    }
}

/// The file with nextest's settings.
fn configuration(root: &Path, arguments: &[OsString]) -> Option<PathBuf> {
    const OPTION: &str = "--config-file";
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == OPTION {
            return arguments.next().map(PathBuf::from);
        }
        let value = argument.to_str().and_then(|text| text.strip_prefix(OPTION));
        if let Some(value) = value.and_then(|value| value.strip_prefix('=')) {
            return Some(value.into());
        }
    }
    Some(root.join(".config/nextest.toml"))
}

/// Where a file with settings says that results are kept.
fn store(settings: &str) -> Option<String> {
    let settings = DeTable::parse(settings).ok()?;
    let store = settings.get_ref().get("store")?;
    let directory = store.get_ref().get("dir")?;
    Some(directory.get_ref().as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nextest_keeps_its_files() {
        assert_eq!(store("[store]\ndir = \"kept\"").as_deref(), Some("kept"));
        assert_eq!(store("[profile.default]\nretries = 2"), None);
        assert_eq!(store("[store"), None);
        let file = |arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            configuration(Path::new("/w"), &arguments)
        };
        assert_eq!(file(&["run"]), Some("/w/.config/nextest.toml".into()));
        assert_eq!(file(&["run", "--config-file", "a"]), Some("a".into()));
        assert_eq!(file(&["run", "--config-file=b"]), Some("b".into()));
        assert_eq!(file(&["run", "--config-file"]), None);
    }
}
