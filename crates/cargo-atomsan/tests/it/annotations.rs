//! What a program says in its own source changes the verdict. The pairs of programs with regions,
//! marks and yields are in [`crate::programs`]; here is what only one engine looks at, and what an
//! ordinary compiler makes of the header.

use crate::support::{command, root};
use std::fs;
use std::process::Command;

/// Two statics that are one thing only if someone says so.
const BOUNDS: &str = r#"
#include <atomsan.h>
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static long low, high;
static long width(void) {
    pthread_mutex_lock(&lock);
    long from = low;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    long to = high;
    pthread_mutex_unlock(&lock);
    return to - from;
}
static void move(void) {
    pthread_mutex_lock(&lock);
    low++;
    high++;
    pthread_mutex_unlock(&lock);
}
static void *mover(void *unused) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < 2000; i++)
        move();
    return unused;
}
int main(void) {
    pthread_t thread;
    long wrong = 0;
#ifdef MARKED
    ATOMSAN_SET("bounds", &low, sizeof low);
    ATOMSAN_SET_MORE("bounds", &high, sizeof high);
#endif
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&thread, 0, mover, 0);
    pthread_barrier_wait(&start);
    for (int i = 0; i < 2000; i++)
        wrong += width() != 0;
    pthread_join(thread, 0);
    return wrong < 0;
}
"#;

#[test]
fn an_atomic_set_is_what_the_program_says() {
    let out = tempfile::tempdir().unwrap();
    let source = out.path().join("bounds.c");
    fs::write(&source, BOUNDS).unwrap();
    let findings = |option: &str| {
        let program = out.path().join("bounds");
        let built = command()
            .args(["cc", "-O1", option])
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .status()
            .unwrap();
        assert!(built.success());
        let run = || {
            let output = command()
                .args(["run", "--noise", "--engine", "marathon", "--json"])
                .arg(&program)
                .output()
                .unwrap();
            let document: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
            document["findings"].as_array().unwrap().len()
        };
        (0..5).map(|_| run()).find(|&found| found > 0).unwrap_or(0)
    };
    assert_eq!(findings("-DUNMARKED"), 0);
    assert!(findings("-DMARKED") > 0);
}

#[test]
fn the_header_is_nothing_for_an_ordinary_compiler() {
    let out = tempfile::tempdir().unwrap();
    let (source, plain) = (out.path().join("bounds.c"), out.path().join("plain.c"));
    let with = format!(
        "{BOUNDS}\nvoid other(void) {{ ATOMSAN_ATOMIC_FUNCTION; ATOMSAN_NOT_ATOMIC(); ATOMSAN_YIELD(); ATOMSAN_ATOMIC(\"x\") {{ width(); }} }}"
    );
    let without = format!("{BOUNDS}\nvoid other(void) {{ width(); }}");
    fs::write(&source, with).unwrap();
    fs::write(&plain, without).unwrap();
    for compiler in ["gcc", "g++"] {
        let assembly = |file, option| {
            let output = Command::new(compiler)
                .args([
                    "-O1",
                    "-S",
                    "-o",
                    "-",
                    "-Wall",
                    "-Wextra",
                    "-Wno-unused",
                    option,
                    "-I",
                ])
                .arg(root().join("include"))
                .arg(file)
                .output()
                .unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success() && said.is_empty(), "{said}");
            let text = String::from_utf8(output.stdout).unwrap();
            let lines = text.lines().filter(|line| !line.contains(".file"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            assembly(&source, "-DMARKED"),
            assembly(&plain, "-DUNMARKED")
        );
    }
}
