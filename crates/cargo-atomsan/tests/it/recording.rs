//! What the runtime records is what happened: the recorded order fits the values that the program
//! read, whatever the schedule, and also when the program is killed.

use crate::support::{command, root};
use atomsan_recording::file::Record;
use atomsan_recording::format::Kind;
use atomsan_recording::order::Order;
use atomsan_recording::{Events, Options, Recording};
use atomsan_trace::{Op, VarId};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(directory: &Path, text: &str) -> PathBuf {
    let (source, program) = (directory.join("program.c"), directory.join("program"));
    fs::write(&source, text).unwrap();
    let status = command()
        .args(["cc", "-O1"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(status.success());
    program
}

fn recordings(directory: &Path) -> Vec<Recording> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rec"))
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| Recording::open(file).unwrap())
        .collect()
}

/// Replays the atomic operations in the recorded order: each must find the value that the last
/// one left.
fn replay(recording: &Recording) -> u64 {
    let mut memory: HashMap<u64, u64> = HashMap::new();
    let mut checked = 0;
    for (slot, record) in Order::new(recording) {
        let Record {
            kind,
            subject,
            extra,
            ..
        } = record;
        let read = matches!(
            kind,
            Kind::AtomicLoad | Kind::AtomicRmwFailed | Kind::AtomicRmw
        );
        if read && let Some(&now) = memory.get(&subject) {
            assert_eq!(now, extra[0], "slot {slot}, {record:?}");
            checked += 1;
        }
        match kind {
            Kind::AtomicLoad | Kind::AtomicRmwFailed | Kind::AtomicStore => {
                memory.insert(subject, extra[0]);
            }
            Kind::AtomicRmw => {
                memory.insert(subject, extra[1]);
            }
            _ => {}
        }
    }
    checked
}

/// Accesses of what the mutex guards never overlap: between an acquisition and its release no
/// other thread touches the variable.
fn exclusive(recording: &Recording) -> u64 {
    let mut holder = None;
    let mut guarded: HashMap<VarId, u64> = HashMap::new();
    for batch in Events::new(recording, Options::default()) {
        for event in batch.events {
            match event.op {
                Op::Acquire(_) => assert_eq!(holder.replace(event.thread), None),
                Op::Release(_) => assert_eq!(holder.take(), Some(event.thread)),
                Op::Read(var) | Op::Write(var) => {
                    assert_eq!(holder, Some(event.thread));
                    *guarded.entry(var).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    assert_eq!(guarded.len(), 1);
    guarded.into_values().sum()
}

#[test]
fn the_recorded_order_fits_the_values_read() {
    let out = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("tests/programs/c/stress.c")).unwrap();
    let program = compile(out.path(), &text);
    for noise in ["0", "100"] {
        let directory = tempfile::tempdir_in(out.path()).unwrap();
        let status = Command::new(&program)
            .env_remove("LD_LIBRARY_PATH")
            .env("ATOMSAN_DIR", directory.path())
            .env("ATOMSAN_NOISE", noise)
            .status()
            .unwrap();
        assert!(status.success());
        let recordings = recordings(directory.path());
        assert_eq!(recordings.len(), 1);
        assert_eq!(recordings[0].counters().threads, 5);
        assert!(recordings[0].counters().exited);
        assert!(replay(&recordings[0]) > 50_000);
        assert!(exclusive(&recordings[0]) > 10_000);
    }
}

#[test]
fn a_killed_program_leaves_a_recording() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(
        out.path(),
        r#"
        #include <pthread.h>
        #include <signal.h>
        #include <stdatomic.h>
        #include <unistd.h>
        static atomic_long shared;
        static void *worker(void *unused) {
            for (;;)
                atomic_fetch_add(&shared, 1);
            return unused;
        }
        int main(void) {
            pthread_t thread;
            pthread_create(&thread, 0, worker, 0);
            while (atomic_load(&shared) < 5000)
                ;
            kill(getpid(), SIGKILL);
        }
        "#,
    );
    let status = Command::new(program)
        .env_remove("LD_LIBRARY_PATH")
        .env("ATOMSAN_DIR", out.path())
        .status()
        .unwrap();
    assert!(!status.success());
    let recordings = recordings(out.path());
    assert!(!recordings[0].counters().exited);
    assert!(replay(&recordings[0]) >= 5000);
}

#[test]
fn a_child_of_fork_has_a_recording_of_its_own() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(
        out.path(),
        r#"
        #include <pthread.h>
        #include <stdatomic.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static atomic_long shared;
        static void *worker(void *unused) {
            for (int i = 0; i < 100; i++)
                atomic_fetch_add(&shared, 1);
            return unused;
        }
        int main(void) {
            pthread_t thread;
            int status;
            atomic_store(&shared, 1);
            pid_t child = fork();
            pthread_create(&thread, 0, worker, 0);
            worker(0);
            pthread_join(thread, 0);
            if (child == 0)
                _exit(7);
            waitpid(child, &status, 0);
            return WEXITSTATUS(status);
        }
        "#,
    );
    let status = Command::new(program)
        .env_remove("LD_LIBRARY_PATH")
        .env("ATOMSAN_DIR", out.path())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(7));
    let recordings = recordings(out.path());
    assert_eq!(recordings.len(), 2);
    for recording in &recordings {
        assert!(replay(recording) >= 199);
    }
}

#[test]
fn a_small_budget_drops_events_and_says_so() {
    let out = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("tests/programs/c/stress.c")).unwrap();
    let program = compile(out.path(), &text);
    let said = command()
        .args(["run", "--memory", "1M"])
        .arg(&program)
        .output()
        .unwrap();
    let stderr = String::from_utf8(said.stderr).unwrap();
    assert!(said.status.success(), "{stderr}");
    assert!(stderr.contains("did not fit into --memory"), "{stderr}");
}

/// The summary says what could not be seen.
#[test]
fn libraries_without_instrumentation_are_named() {
    let out = tempfile::tempdir().unwrap();
    let library = out.path().join("libopaque.so");
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC"])
        .arg(root().join("tests/programs/harmless/library.c"))
        .arg("-o")
        .arg(&library)
        .status()
        .unwrap();
    assert!(built.success());
    let source = out.path().join("program.c");
    fs::write(
        &source,
        "void *work(void *);\nint main(void) { work((void *)10); return 0; }\n",
    )
    .unwrap();
    let program = out.path().join("program");
    let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
    rpath.push(out.path());
    let built = command()
        .arg("cc")
        .args([&source, &library])
        .arg(rpath)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(built.success());
    let said = command().arg("run").arg(&program).output().unwrap();
    let stderr = String::from_utf8(said.stderr).unwrap();
    assert!(
        stderr.contains("libopaque.so is not instrumented"),
        "{stderr}"
    );
}
