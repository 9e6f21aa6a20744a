//! `atomsan run`: a program under the runtime, then the check of what it did.

use crate::exit::{Exit, UsageError};
use crate::program::{self, Program};
use crate::recorded::{self, Whose};
use crate::{last, output, runtime, watch};
use anyhow::bail;
use atomsan_recording::Options;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  atomsan run ./prog                    built by `atomsan cc`, or by gcc with -fsanitize=thread
  atomsan run --save-trace t.atrace -- ./prog -v
  atomsan run --online ./server         check while it runs, in constant memory
  atomsan run --online --engine atomizer ./server
  atomsan run --runs 20 ./prog          20 runs with another noise each, as one result
  atomsan run --noise --noise-seed 17 ./prog

Two runs, the first one much cheaper; files of many runs and machines can be merged:
  atomsan run --first-run one.first ./prog
  atomsan merge *.first -o all.first
  atomsan run --second-run all.first ./prog

  atomsan run --regions src,lib ./prog  only functions written in these directories

A program that is started by itself takes options from the environment:
  ATOMSAN_OPTIONS=\"--engine doublechecker\" ./prog
  ATOMSAN_OPTIONS=\"--first-run all.first\" make check      each process adds to the file

Exit status: the program's own; 66 if it succeeded and there are findings.";

/// Run a program and check what its threads did
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) recorded: recorded::Args,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROG")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let [name, arguments @ ..] = args.program.as_slice() else {
        return Ok(Exit::Usage);
    };
    args.recorded.render.refuse_without_file()?;
    let runtime = runtime::directory()?;
    let sources = sources(&args.recorded.regions)?;
    let program = program::look_at(name);
    if program == Program::OwnRuntime {
        bail!(
            "{} brings ThreadSanitizer's own runtime along, as clang links it; link it with \
             `atomsan cc`, or by clang with -fsanitize=thread -shared-libsan",
            name.display()
        );
    }
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", library_path(&runtime));
    let (status, found) = watch::run(&mut command, &sources, &args.recorded, &last::place()?)?;
    let Some(found) = found else {
        output::warn(&format!("nothing was seen: {}", program.why(name)));
        return Ok(verdict(status, Exit::Clean));
    };
    Ok(verdict(status, found))
}

/// Whose functions are regions: what was compiled for checking, without the headers of the system.
fn sources(regions: &[Whose]) -> anyhow::Result<Options> {
    if regions.contains(&Whose::All) {
        return Ok(Options::everything());
    }
    let mut sources = Options::default();
    for whose in regions {
        match whose {
            Whose::Named(directory) => {
                let path = Path::new(directory).canonicalize();
                let path = path.map_err(|error| {
                    UsageError(format!(
                        "--regions {directory}: {error}; expected workspace, all, or directories \
                         of sources"
                    ))
                })?;
                sources.roots.push(path);
            }
            Whose::Direct => {
                let message = "--regions direct is for `cargo atomsan`, which knows dependencies; \
                               name directories of sources instead";
                return Err(UsageError(message.to_owned()).into());
            }
            Whose::Workspace | Whose::All => {}
        }
    }
    Ok(sources)
}

/// Our directory in front of what the user has.
fn library_path(directory: &Path) -> OsString {
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
