//! The runtime never hurts the program: what it prints and how it ends are the same as without,
//! whether `atomsan run` watches it or it was started by itself.
//!
//! `tests/programs/harmless` does in each of its modes something that a runtime can spoil.

use crate::support::{command, root};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn source(name: &str) -> PathBuf {
    root().join("tests/programs/harmless").join(name)
}

fn compile(compiler: &mut Command, options: &[&str], source: &Path, to: &Path) {
    let output = compiler
        .args(["-O1", "-I"])
        .arg(root().join("include"))
        .args(options)
        .arg(source)
        .arg("-o")
        .arg(to)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

fn run(program: &mut Command, arguments: &[&Path], temporary: &Path) -> Output {
    program
        .args(arguments)
        .env_remove("LD_LIBRARY_PATH")
        .env("TMPDIR", temporary)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The status as a shell sees it.
fn status(output: &Output) -> i32 {
    let status = output.status;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// A handler that comes while a thread starts is no thread of its own, and does not ask the allocator for anything.
#[test]
fn signals_come_while_threads_start() {
    let out = tempfile::tempdir().unwrap();
    let checked = out.path().join("checked");
    compile(command().arg("cc"), &[], &source("harmless.c"), &checked);
    let output = run(
        &mut Command::new(&checked),
        &[Path::new("starts")],
        out.path(),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(status(&output), 0, "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "started\n");
    assert!(said.contains("of 3,001 threads"), "{said}");
}

/// Signals that come while a thread starts or ends meet a runtime that knows it only in part.
#[test]
fn signals_come_at_any_moment() {
    let out = tempfile::tempdir().unwrap();
    let checked = out.path().join("checked");
    compile(command().arg("cc"), &[], &source("harmless.c"), &checked);
    for _ in 0..100 {
        let output = run(
            &mut Command::new(&checked),
            &[Path::new("signals")],
            out.path(),
        );
        assert_eq!(status(&output), 0);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "handled\n");
    }
}

#[test]
fn programs_do_what_they_do_without_us() {
    let out = tempfile::tempdir().unwrap();
    let at = |name: &str| out.path().join(name);
    let (plain, checked) = (at("plain"), at("checked"));
    compile(
        &mut Command::new("gcc"),
        &["-pthread"],
        &source("harmless.c"),
        &plain,
    );
    compile(command().arg("cc"), &[], &source("harmless.c"), &checked);
    let (plain_library, checked_library) = (at("plain.so"), at("checked.so"));
    let shared = ["-shared", "-fPIC"];
    let library = source("library.c");
    compile(&mut Command::new("gcc"), &shared, &library, &plain_library);
    compile(command().arg("cc"), &shared, &library, &checked_library);

    let modes = run(&mut Command::new(&plain), &[], out.path()).stdout;
    let modes = String::from_utf8(modes).unwrap();
    assert!(modes.lines().count() > 20);
    for mode in modes.lines() {
        let mode = Path::new(mode);
        let expected = run(
            &mut Command::new(&plain),
            &[mode, &plain_library],
            out.path(),
        );
        let alone = run(
            &mut Command::new(&checked),
            &[mode, &checked_library],
            out.path(),
        );
        let watched = run(
            command().arg("run").arg(&checked),
            &[mode, &checked_library],
            out.path(),
        );
        let printed = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        let said = |output: &Output| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            format!("{}: {stderr}", mode.display())
        };
        assert_eq!(printed(&alone), printed(&expected), "{}", said(&alone));
        assert_eq!(alone.status, expected.status, "{}", said(&alone));
        assert_eq!(printed(&watched), printed(&expected), "{}", said(&watched));
        assert_eq!(status(&watched), status(&expected), "{}", said(&watched));
        assert!(
            said(&watched).contains("atomsan: "),
            "{}: no summary",
            mode.display()
        );
    }
    // What is left over is of those that were killed, or cannot reach it any more.
    let left = std::fs::read_dir(out.path()).unwrap();
    let left = left.filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        path.extension().is_some_and(|ending| ending == "rec")
    });
    assert!(left.count() <= 3);
}

/// Both constructors and threads before `main`, exceptions, and destructors after it.
#[test]
fn cpp_before_main_and_after_it() {
    let out = tempfile::tempdir().unwrap();
    let (plain, checked) = (out.path().join("plain"), out.path().join("checked"));
    let source = source("statics.cpp");
    compile(&mut Command::new("g++"), &["-pthread"], &source, &plain);
    compile(command().arg("c++"), &[], &source, &checked);
    let expected = run(&mut Command::new(&plain), &[], out.path());
    let alone = run(&mut Command::new(&checked), &[], out.path());
    assert_eq!(expected.status.code(), Some(4));
    assert_eq!(alone.status, expected.status);
    assert_eq!(
        String::from_utf8_lossy(&alone.stdout),
        String::from_utf8_lossy(&expected.stdout)
    );
}

/// Panics in threads and in `main`, destructors of thread-locals, a panic while panicking.
#[test]
fn rust_panics_are_rusts_own() {
    let out = tempfile::tempdir().unwrap();
    std::fs::create_dir(out.path().join("src")).unwrap();
    std::fs::copy(source("panics.rs"), out.path().join("src/main.rs")).unwrap();
    std::fs::write(
        out.path().join("Cargo.toml"),
        "[package]\nname = \"panics\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n",
    )
    .unwrap();
    let build = |cargo: &mut Command| {
        let built = cargo
            .current_dir(out.path())
            .args(["build", "--quiet"])
            .output();
        let built = built.unwrap();
        let stderr = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{stderr}");
    };
    build(&mut Command::new(env!("CARGO")));
    build(command().arg("cargo"));
    let plain = out.path().join("target/debug/panics");
    let checked = out
        .path()
        .join("target/atomsan/x86_64-unknown-linux-gnu/debug/panics");
    for mode in ["main", "thread", "twice", "exit"] {
        let expected = run(&mut Command::new(&plain), &[Path::new(mode)], out.path());
        let alone = run(&mut Command::new(&checked), &[Path::new(mode)], out.path());
        assert_eq!(alone.status, expected.status, "{mode}");
        assert_eq!(alone.stdout, expected.stdout, "{mode}");
        let stderr = String::from_utf8_lossy(&alone.stderr);
        let wanted = String::from_utf8_lossy(&expected.stderr);
        for line in wanted.lines().filter(|line| line.contains("on purpose")) {
            assert!(stderr.contains(line), "{mode}: {stderr}");
        }
    }
}
