//! Everything CI checks, in the order in which it fails fastest: the last is the quick half of the corpus.

use crate::Result;
use std::process::Command;

pub(crate) fn run() -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )?;
    cargo(
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        &[(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private-intra-doc-links",
        )],
    )?;
    cargo(&["test", "--workspace"], &[])?;
    eprintln!("+ cargo xtask corpus --quick");
    crate::corpus::run(&["--quick"])
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    eprintln!("+ cargo {}", arguments.join(" "));
    let status = Command::new(cargo)
        .args(arguments)
        .envs(environment.iter().copied())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("cargo {} failed", arguments.join(" ")).into())
    }
}
