//! `atomsan run`: a program under the runtime, then the check of what it did.

use crate::exit::Exit;
use crate::{recorded, runtime, watch};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  atomsan run ./prog                    built by `atomsan cc`, or by gcc with -fsanitize=thread
  atomsan run --save-trace t.atrace -- ./prog -v
  atomsan run --online ./server         check while it runs, in constant memory

Exit status: the program's own; 66 if it succeeded and there are findings.";

/// Run a program and check what its threads did
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) recorded: recorded::Args,

    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROG"
    )]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let [name, arguments @ ..] = args.program.as_slice() else {
        return Ok(Exit::Usage);
    };
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", library_path(&runtime::directory()?));
    let (status, found) = watch::run(&mut command, &[], &args.recorded)?;
    Ok(verdict(status, found))
}

/// Our directory in front of what the user has.
fn library_path(directory: &std::path::Path) -> OsString {
    let mut path = directory.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH").filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}

/// The program's own status, unless it succeeded and there is something to say.
pub(crate) fn verdict(status: ExitStatus, found: Exit) -> Exit {
    match (status.code(), status.signal()) {
        (Some(0), _) => found,
        (Some(code), _) => Exit::Program(code as u8),
        (None, signal) => Exit::Program(128 + signal.unwrap_or(0) as u8),
    }
}
