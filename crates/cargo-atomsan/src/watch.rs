//! Running a program that is watched: recorded and checked afterwards, or checked while it runs.

use crate::exit::Exit;
use crate::{online, recorded};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// How a program is watched.
#[derive(Debug, clap::Args)]
#[group(id = "watch")]
pub(crate) struct Flags {
    /// Check with doublechecker while the program runs; memory does not grow with the run
    #[arg(long)]
    pub(crate) online: bool,

    /// Check the same run again as a recording, and say whether the findings are the same
    #[arg(long, hide = true, requires = "online")]
    pub(crate) compare: bool,
}

/// Runs a command that starts programs, and checks them; `roots` are the user's sources.
pub(crate) fn run(
    command: &mut Command,
    directory: &Path,
    roots: &[PathBuf],
    args: &recorded::Args,
) -> anyhow::Result<(ExitStatus, Exit)> {
    command.envs(recorded::environment(args, directory));
    if args.watch.online {
        return online::run(command, directory, roots, args);
    }
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let found = recorded::check_all(directory, roots, args)?;
    Ok((status, found))
}
