//! The options for cargo that matter to us too. All are passed on as they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What the user has told cargo.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Options {
    /// The targets.
    pub(super) targets: Vec<OsString>,
    /// Where it builds.
    pub(super) target_dir: Option<OsString>,
    /// For `cargo metadata`: which packages there are.
    pub(super) metadata: Vec<OsString>,
    /// For `cargo config`: settings.
    pub(super) config: Vec<OsString>,
}

impl Options {
    /// Reads arguments, up to those that are the program's own.
    pub(super) fn read(arguments: &[OsString]) -> Options {
        let mut options = Options::default();
        let mut rest = arguments.iter().take_while(|argument| *argument != "--");
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.into())),
                _ => (&*text, None),
            };
            if matches!(
                name,
                "--offline" | "--locked" | "--frozen" | "--all-features" | "--no-default-features"
            ) {
                options.metadata.push(argument.clone());
                continue;
            }
            if !matches!(
                name,
                "--target"
                    | "--target-dir"
                    | "--manifest-path"
                    | "--config"
                    | "--lockfile-path"
                    | "--features"
                    | "-F"
                    | "-Z"
            ) {
                continue;
            }
            let Some(value) = value.or_else(|| rest.next().cloned()) else {
                break;
            };
            match name {
                "--target" => options.targets.push(value),
                "--target-dir" => options.target_dir = Some(value),
                _ => {
                    if name == "--config" {
                        options.config.extend([name.into(), value.clone()]);
                    }
                    options.metadata.extend([name.into(), value]);
                }
            }
        }
        options
    }
}

/// One of `ours`, which come first, among the arguments for cargo. What follows the first word that is neither an
/// option nor its value may be for the program.
pub(super) fn misplaced<'a>(arguments: &'a [OsString], ours: &[&str]) -> Option<&'a str> {
    let mut after_option = false;
    for argument in arguments.iter().take_while(|argument| *argument != "--") {
        let is_option = argument.as_encoded_bytes().starts_with(b"-");
        if !is_option && !after_option {
            return None;
        }
        after_option = is_option;
        let name = argument.to_str().and_then(|text| text.strip_prefix("--"));
        let name = name.map(|text| text.split_once('=').map_or(text, |(name, _)| name));
        if let Some(name) = name.filter(|name| ours.contains(name)) {
            return Some(name);
        }
    }
    None
}

impl Options {
    /// Where the manifest is that the user has named, or the current directory.
    pub(super) fn directory(&self) -> PathBuf {
        let mut words = self.metadata.iter();
        let manifest = (words.find(|word| *word == "--manifest-path"))
            .and_then(|_| words.next())
            .and_then(|manifest| Path::new(manifest).canonicalize().ok());
        match manifest.as_deref().and_then(Path::parent) {
            Some(directory) => directory.to_owned(),
            None => std::env::current_dir().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_come_too_late() {
        let found = |words: &str| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            misplaced(&words, &["memory", "json"]).map(str::to_owned)
        };
        assert_eq!(found("--lib --memory 3M"), Some("memory".to_owned()));
        assert_eq!(found("-F x --memory=3M"), Some("memory".to_owned()));
        assert_eq!(found("--lib -- --json"), None);
        assert_eq!(found("program --json"), None);
        assert_eq!(found("--jsonx memory"), None);
    }

    #[test]
    fn options_of_cargo_and_not_of_the_program() {
        let arguments = [
            "--lib",
            "--target-dir",
            "t",
            "--manifest-path=a/Cargo.toml",
            "--frozen",
            "-F",
            "x",
            "--config",
            "build.jobs=1",
            "--target=x86_64-unknown-linux-musl",
            "--",
            "--target",
            "y",
        ];
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let options = Options::read(&arguments);
        assert_eq!(options.targets, ["x86_64-unknown-linux-musl"]);
        assert_eq!(options.target_dir, Some("t".into()));
        assert_eq!(options.config, ["--config", "build.jobs=1"]);
        let metadata = [
            "--manifest-path",
            "a/Cargo.toml",
            "--frozen",
            "-F",
            "x",
            "--config",
            "build.jobs=1",
        ];
        assert_eq!(options.metadata, metadata);
    }
}
