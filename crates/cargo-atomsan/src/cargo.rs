//! `cargo atomsan`: cargo, with instrumentation and the runtime.
//!
//! ```text
//! cargo atomsan test ─► cargo test ─► rustc (instrumentation flags) ─► linker (this executable again)
//!                            │                                             adds the runtime and the stubs
//!                            └► the tests, which record ─► check
//! ```
//!
//! Everything is passed by the environment, so the user's files stay as they are: flags for rustc
//! and rustdoc, a target directory of its own, the target (so that build scripts and procedural
//! macros are left alone), and the linker.

use crate::exit::Exit;
use crate::{linker, recorded, run, runtime, watch};
use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  cargo atomsan test
  cargo atomsan run --noise --release -- --my-option
  cargo atomsan test --save-trace t.atrace --lib

Our options come first, then cargo's. Exit status: cargo's own; 66 if it succeeded and there are
findings.";

/// Run cargo with checking: test, run, bench, nextest, build
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// cargo's subcommand, or `yields`, `clean`, `setup`, `show-env`
    #[arg(value_name = "SUBCOMMAND")]
    subcommand: String,

    #[command(flatten)]
    recorded: recorded::Args,

    /// What cargo is given
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<OsString>,
}

const INSTRUMENTATION: &[&str] = &[
    "-Cllvm-args=-force-attribute=sanitize_thread",
    "-Cllvm-args=-tsan-instrument-read-before-write",
    "-Cpasses=forceattrs,tsan-module,function(tsan)",
];

/// For every crate: lines and full names for the report, no vectors that are too wide to be seen, and nothing
/// inlined after instrumentation.
const ALWAYS: &[&str] = &[
    "-Cdebuginfo=1",
    "-Cstrip=none",
    "-Ctarget-cpu=x86-64",
    "-Clto=off",
    "-Cforce-frame-pointers=yes",
    "--cfg=atomsan",
    "--check-cfg=cfg(atomsan)",
];

pub(crate) fn run(mut args: Args) -> anyhow::Result<Exit> {
    if args.subcommand == "yields" {
        args.subcommand = "run".to_owned();
        args.recorded.ask_for_yields();
    }
    let workspace = workspace()?;
    match args.subcommand.as_str() {
        "clean" => {
            let directory = workspace.target.join("atomsan");
            if directory.exists() {
                std::fs::remove_dir_all(&directory)
                    .with_context(|| format!("cannot remove {}", directory.display()))?;
            }
            return Ok(Exit::Clean);
        }
        "setup" => {
            environment(&workspace)?;
            return Ok(Exit::Clean);
        }
        "show-env" => {
            for (name, value) in environment(&workspace)? {
                println!("{name}={}", shell_quoted(&value.to_string_lossy()));
            }
            return Ok(Exit::Clean);
        }
        _ => {}
    }
    let mut command = Command::new(cargo());
    command
        .arg(&args.subcommand)
        .args(&args.arguments)
        .envs(environment(&workspace)?);
    let roots = [workspace.root];
    let (status, found) = watch::run(&mut command, &roots, &args.recorded)?;
    Ok(run::verdict(status, found))
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Where the user works.
struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

fn workspace() -> anyhow::Result<Workspace> {
    let output = Command::new(cargo())
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cannot understand `cargo metadata`")?;
    let path = |key: &str| metadata[key].as_str().map(PathBuf::from);
    Ok(Workspace {
        root: path("workspace_root").context("cargo names no workspace")?,
        target: path("target_directory").context("cargo names no target directory")?,
    })
}

/// What cargo and the compilers it starts are told.
fn environment(workspace: &Workspace) -> anyhow::Result<Vec<(String, OsString)>> {
    let toolchain = Toolchain::find()?;
    let runtime = runtime::directory()?;
    let directory = workspace.target.join("atomsan");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    linker::prepare(&toolchain.std, &directory)?;
    let target = toolchain.host.to_uppercase().replace('-', "_");
    let mut flags: Vec<String> = [INSTRUMENTATION, ALWAYS]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    // As a flag, because cargo would use a configured linker for build scripts too.
    flags.push(format!("-Clinker={}", runtime.join(linker::NAME).display()));
    let mut environment: Vec<(String, OsString)> = vec![
        (
            "CARGO_ENCODED_RUSTFLAGS".into(),
            encoded("RUSTFLAGS", &flags),
        ),
        (
            "CARGO_ENCODED_RUSTDOCFLAGS".into(),
            encoded("RUSTDOCFLAGS", &flags),
        ),
        ("CARGO_TARGET_DIR".into(), directory.clone().into()),
        ("CARGO_BUILD_TARGET".into(), toolchain.host.into()),
        (linker::DIRECTORY.into(), directory.into()),
    ];
    if let Some(real) = std::env::var_os(format!("CARGO_TARGET_{target}_LINKER")) {
        environment.push((linker::REAL.into(), real));
    }
    Ok(environment)
}

/// The user's own flags, then ours, as cargo separates them.
fn encoded(plain: &str, ours: &[String]) -> OsString {
    const SEPARATOR: &str = "\x1f";
    let users = match std::env::var(format!("CARGO_ENCODED_{plain}")) {
        Ok(flags) => flags,
        Err(_) => {
            let flags = std::env::var(plain).unwrap_or_default();
            flags.split_whitespace().collect::<Vec<_>>().join(SEPARATOR)
        }
    };
    let users = users.split(SEPARATOR).filter(|flag| !flag.is_empty());
    let all: Vec<&str> = users.chain(ours.iter().map(String::as_str)).collect();
    all.join(SEPARATOR).into()
}

/// The compiler in use.
struct Toolchain {
    host: String,
    /// The directory of the precompiled standard library.
    std: PathBuf,
}

impl Toolchain {
    fn find() -> anyhow::Result<Toolchain> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let ask = |arguments: &[&str]| -> anyhow::Result<String> {
            let output = Command::new(&rustc)
                .args(arguments)
                .output()
                .context("cannot run rustc")?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let version = ask(&["-vV"])?;
        let host = version
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .context("rustc does not say what its host is")?
            .to_owned();
        let sysroot = ask(&["--print", "sysroot"])?;
        let std = Path::new(sysroot.trim())
            .join("lib/rustlib")
            .join(&host)
            .join("lib");
        Ok(Toolchain { host, std })
    }
}

fn shell_quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}
