//! The exit status: a contract with scripts.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// Nothing was found.
    Clean,
    /// There are findings that count (`--fail-on`).
    Findings,
    /// The command was given wrong; clap uses the same number.
    Usage,
    /// Anything else that failed.
    Failure,
    /// What a program or compiler that was run ended with.
    Program(u8),
}

/// An error in what the user asked for, rather than in doing it.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl Exit {
    /// The status for an error.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        if error.is::<UsageError>() {
            Exit::Usage
        } else {
            Exit::Failure
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Clean => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Findings => 66,
            Exit::Program(status) => status,
        })
    }
}
