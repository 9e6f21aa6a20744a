//! Findings appear as they are made, and outlive whoever dies: the program or its checker.

use crate::online::compile_with;
use crate::support::command;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn start(program: &Path, arguments: &[&str]) -> Child {
    command()
        .args(["run", "--online", "--noise"])
        .args(arguments)
        .arg(program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the line that tells the first finding; what follows can still be read.
fn first_finding(child: &mut Child) -> impl BufRead + use<> {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(
        line.contains("found while it runs: `withdraw` is not atomic"),
        "{line}"
    );
    lines
}

fn kill(process: u32) {
    let process = Pid::from_raw(process as i32).unwrap();
    kill_process(process, Signal::KILL).unwrap();
}

/// The processes that another one has started.
fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = std::fs::read_to_string(path).unwrap();
    let numbers = text.split_whitespace();
    numbers.map(|number| number.parse().unwrap()).collect()
}

#[test]
fn a_program_that_is_killed() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/server", &["-DTENTHS=300"]);
    for engine in ["doublechecker", "velodrome"] {
        let mut child = start(&program, &["--engine", engine]);
        let mut rest = first_finding(&mut child);
        assert!(child.try_wait().unwrap().is_none(), "it runs still");
        let running = children(child.id());
        assert_eq!(running.len(), 1);
        kill(running[0]);
        let mut text = String::new();
        rest.read_to_string(&mut text).unwrap();
        assert!(text.contains("`withdraw` is not atomic:"), "{text}");
        assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
    }
}

#[test]
fn a_checker_that_is_killed() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/server", &["-DTENTHS=15"]);
    let saved = out.path().join("saved.json");
    let mut child = start(&program, &["--save", saved.to_str().unwrap()]);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let _rest = first_finding(&mut child);
    kill(child.id());
    child.wait().unwrap();
    // The program goes on to its end, in its own time.
    let started = Instant::now();
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("14\n"), "{text}");
    assert!(started.elapsed() < PATIENCE);
    let report = command().arg("report").arg(&saved).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("`withdraw` is not atomic"), "{report}");
}

/// A program that asks something rings. Where it does so at somebody else's, or nobody has that number, as in another
/// namespace, it is answered all the same.
#[test]
fn a_program_that_cannot_ring() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "c/late", &[]);
    let file = out.path().join("first");
    let first = file.to_str().unwrap();
    let nobody = i32::MAX.to_string();
    for rung in ["1", &nobody] {
        let started = Instant::now();
        let run = |arguments: &[&str]| {
            let mut run = command();
            run.arg("run").args(arguments).arg("--").arg("env");
            let said = run.arg(format!("ATOMSAN_FOLLOWED={rung}")).arg(&program);
            String::from_utf8(said.output().unwrap().stderr).unwrap()
        };
        let said = run(&["--first-run", first]);
        let regions = std::fs::read_to_string(&file).unwrap();
        assert!(regions.contains("region withdraw\n"), "{regions}{said}");
        assert!(!said.contains("nobody answered"), "{said}");
        let said = run(&["--online", "--engine", "doublechecker"]);
        assert!(said.contains("`withdraw` is not atomic"), "{said}");
        assert!(!said.contains("nobody answered"), "{said}");
        assert!(started.elapsed() < PATIENCE);
    }
}

/// It has much more to say than fits into the room for logs, and nobody listens.
#[test]
fn a_busy_program_does_not_wait_for_a_dead_checker() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/churn", &["-DN=200000", "-DSAY"]);
    let mut child = start(&program, &[]);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    kill(child.id());
    child.wait().unwrap();
    let started = Instant::now();
    output.read_to_string(&mut line).unwrap();
    assert_eq!(line, "begun\ndone\n");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

/// On a terminal too; `script` is one.
#[test]
fn findings_appear_on_a_terminal_as_they_are_made() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/server", &["-DTENTHS=20"]);
    let atomsan = command().get_program().to_owned();
    let line = format!(
        "{} run --online --noise {}",
        atomsan.to_str().unwrap(),
        program.display()
    );
    let child = Command::new("script")
        .args(["-qefc", &line, "/dev/null"])
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        assert!(std::env::var_os("CI").is_none(), "CI must have script");
        eprintln!("skipped: no script");
        return;
    };
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.map_while(Result::ok).collect();
    let at = |text: &str| lines.iter().position(|line| line.contains(text));
    let found = at("found while it runs").unwrap_or_else(|| panic!("{lines:?}"));
    let last = (lines.iter()).position(|line| line.trim_end() == "19");
    assert!(Some(found) < last, "{lines:?}");
    assert!(last < at("`withdraw` is not atomic:"), "{lines:?}");
    assert_eq!(
        child.wait().unwrap().code(),
        Some(7),
        "the program's own status"
    );
}
