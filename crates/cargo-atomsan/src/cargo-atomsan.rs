//! `cargo atomsan`, as cargo finds it: `atomsan cargo`, under the name that cargo looks for.
#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // cargo passes the name of the subcommand first.
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.skip_while(|argument| argument == "atomsan");
    let mut arguments = arguments.peekable();
    let toolchain = arguments.peek().map(|first| first.to_string_lossy());
    if let Some(toolchain) = toolchain.filter(|first| first.starts_with('+')) {
        eprintln!("error: the toolchain comes first: `cargo {toolchain} atomsan …`");
        return ExitCode::from(2);
    }
    let atomsan = match std::env::current_exe() {
        Ok(own) => own.with_file_name("atomsan"),
        Err(_) => "atomsan".into(),
    };
    let error = Command::new(&atomsan).arg("cargo").args(arguments).exec();
    eprintln!("error: cannot run {}: {error}", atomsan.display());
    ExitCode::FAILURE
}
