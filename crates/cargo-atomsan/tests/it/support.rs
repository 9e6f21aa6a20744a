//! Running the binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a run said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code().expect("not killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atomsan"));
    command.current_dir(root());
    // cargo points the tests at its own libraries; a user's programs do not have that.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// The workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn atomsan(arguments: &[&str]) -> Said {
    command().args(arguments).output().unwrap().into()
}

/// With this standard input.
pub(crate) fn atomsan_with(arguments: &[&str], input: &[u8]) -> Said {
    let mut child = command()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may stop reading early, on an error.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap().into()
}

/// The folder of published traces, `$ATOMSAN_TRACES` or beside the checkout. Tests that need it
/// are skipped where it is missing, but not in CI.
pub(crate) fn published_traces() -> Option<PathBuf> {
    let given = std::env::var_os("ATOMSAN_TRACES").map(PathBuf::from);
    let found = given
        .into_iter()
        .chain([root().join("../shared/traces")])
        .find(|path| path.is_dir());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "CI must have the traces");
        eprintln!("skipped: no published traces; set ATOMSAN_TRACES");
    }
    found
}

/// Copies something that is to be executed. By another process: a file that this one has open for writing,
/// another test may have open in a child that it is just starting, and then it cannot be executed.
pub(crate) fn copy_executable(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    assert!(copy.arg(from).arg(to).status().unwrap().success());
}
