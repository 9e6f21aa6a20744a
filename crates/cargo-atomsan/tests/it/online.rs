//! Checking while the program runs says what checking afterwards says, of the same run; what came
//! last is known when the budget is used up; noise finds what a quiet run misses.

use crate::support::{Said, command, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn compile(directory: &Path, name: &str) -> PathBuf {
    compile_with(directory, &format!("c/{name}"), &[])
}

/// What has been written for one test.
fn compile_text(directory: &Path, name: &str, text: &str) -> PathBuf {
    let source = directory.join(format!("{name}.c"));
    fs::write(&source, text).unwrap();
    compile_source(directory, &source, &[])
}

/// Of any folder, with further options.
pub(crate) fn compile_with(directory: &Path, name: &str, options: &[&str]) -> PathBuf {
    let source = root().join("tests/programs").join(format!("{name}.c"));
    compile_source(directory, &source, options)
}

fn compile_source(directory: &Path, source: &Path, options: &[&str]) -> PathBuf {
    let program = directory.join(source.file_stem().unwrap());
    let mut compiler = command();
    compiler
        .args(["cc", "-O1"])
        .args(options)
        .arg(source)
        .arg("-o")
        .arg(&program);
    assert!(compiler.status().unwrap().success(), "{source:?}");
    program
}

/// The programs in C.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join("tests/programs/c"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "c"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

pub(crate) fn run(program: &Path, arguments: &[&str]) -> Said {
    let mut run = command();
    run.arg("run").args(arguments).arg(program);
    run.output().unwrap().into()
}

#[test]
fn the_same_findings_as_afterwards() {
    let out = tempfile::tempdir().unwrap();
    let mut both = 0;
    for name in names() {
        let program = compile(out.path(), &name);
        let said = run(
            &program,
            &[
                "--online",
                "--compare",
                "--engine",
                "doublechecker",
                "--noise",
            ],
        );
        let line = said
            .stderr
            .lines()
            .find(|line| line.starts_with("compared"));
        let line = line.unwrap_or_else(|| panic!("{name}: {}", said.stderr));
        assert!(
            line.ends_with("only online [], only offline []"),
            "{name}: {line}"
        );
        both += usize::from(!line.contains("both 0"));
    }
    assert!(both > 2, "{both} programs with findings");
}

/// Random regions under random locks. In a component, a violation may hide another one behind it, and
/// what it hides depends on when components are looked at; so a function that is shown in one way may
/// be shown in another one too. But nothing is found that a recording does not show, and over some
/// runs the same functions are not atomic.
#[test]
fn the_same_functions_in_random_programs() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/random", &[]);
    let functions = |text: &str| -> BTreeSet<String> {
        let names = text.split('"').skip(1).step_by(2);
        let functions = names.filter_map(|name| name.split(' ').next());
        functions.map(str::to_owned).collect()
    };
    let (mut online, mut offline) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..12 {
        let mut run = command();
        run.args(["run", "--online", "--compare", "--noise"])
            .args(["--engine", "doublechecker"])
            .arg(&program)
            .arg(seed.to_string());
        let said = Said::from(run.output().unwrap());
        let line = said
            .stderr
            .lines()
            .find(|line| line.starts_with("compared"));
        let line = line.unwrap_or_else(|| panic!("{}", said.stderr));
        let (rest, only_offline) = line.split_once("only offline ").unwrap();
        assert!(rest.ends_with("only online [], "), "{seed}: {line}");
        for culprit in ["once", "twice", "nested", "again"] {
            if said.stderr.contains(&format!("`{culprit}` is not atomic")) {
                online.insert(culprit.to_owned());
            }
        }
        offline.extend(functions(only_offline));
    }
    assert!(offline.is_subset(&online), "{offline:?}, {online:?}");
    // A single step and a section under a lock are atomic.
    let wrong = ["again", "twice"].map(str::to_owned);
    assert_eq!(online, BTreeSet::from(wrong));
}

/// What a function does with variables of its own is in the log as soon as another thread may have something to do with them, and what its
/// caller has on its stack always is.
#[test]
fn variables_that_are_lent_to_others() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/lent", &[]);
    for seed in ["1", "2", "3"] {
        let options = ["--online", "--compare", "--engine", "doublechecker"];
        let said = run(
            &program,
            &[&options[..], &["--noise", "--noise-seed", seed]].concat(),
        );
        let line = |line: &&str| line.starts_with("compared");
        let line = said.stderr.lines().find(line).unwrap_or_default();
        assert!(line.contains("only online [], "), "{}", said.stderr);
        assert!(line.ends_with("only offline []"), "{}", said.stderr);
        for (name, is_wrong) in [("lends", true), ("grows", true), ("keeps", false)] {
            let found = said.stderr.contains(&format!("`{name}` is not atomic"));
            assert_eq!(found, is_wrong, "{name}: {}", said.stderr);
        }
    }
}

/// What an initialiser does is not checked, however long ago it began.
#[test]
fn initialisers_that_are_longer_than_what_is_read() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/initialiser", &[]);
    for seed in 0..5 {
        let seed = seed.to_string();
        let said = run(
            &program,
            &[
                "--online",
                "--engine",
                "doublechecker",
                "--noise",
                "--noise-seed",
                &seed,
            ],
        );
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
}

/// A violation that one quiet run may miss is found within 20 noisy ones.
#[test]
fn noise_finds_every_wrong_program() {
    let out = tempfile::tempdir().unwrap();
    for name in names().iter().filter(|name| name.ends_with("-wrong")) {
        let program = compile(out.path(), name);
        let found = (0..5).any(|seed: u32| {
            let seed = (4 * seed).to_string();
            let said = run(
                &program,
                &["--online", "--runs", "4", "--noise-seed", &seed],
            );
            assert!([0, 66].contains(&said.code), "{name}: {}", said.stderr);
            assert_eq!(said.code == 66, said.stderr.contains("--noise-seed"));
            said.code == 66
        });
        assert!(found, "{name}");
    }
}

#[test]
fn a_full_recording_forgets_its_oldest_part() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(out.path(), "late");
    let said = run(&program, &["--memory", "1M", "--engine", "doublechecker"]);
    assert!(
        said.stderr.contains("oldest were forgotten"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("withdraw"), "{}", said.stderr);
    assert_eq!(said.code, 66);
}

/// A transaction that does not end keeps its log, as far as there is room for it, and how much that is can be chosen.
#[test]
fn the_room_for_logs_can_be_chosen() {
    let out = tempfile::tempdir().unwrap();
    // Ten megabytes of accesses in a region, and another thread that has something to do with it.
    let text = "#include <pthread.h>\n#include <stdlib.h>\nstatic pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static long shared;\nstatic void add(void) { pthread_mutex_lock(&lock); shared++; pthread_mutex_unlock(&lock); }\n\
        static void work(long *words, long len) { add(); for (long at = 0; at < len; at++) words[at] += at; add(); }\n\
        static void *worker(void *len) { long *words = calloc((long)len, 8); work(words, (long)len); free(words); return 0; }\n\
        int main(void) { pthread_t thread; pthread_create(&thread, 0, worker, (void *)600000L); add(); pthread_join(thread, 0); return 0; }\n";
    let program = compile_text(out.path(), "long", text);
    for (memory, forgets) in [("4M", true), ("32M", false)] {
        let said = run(
            &program,
            &["--online", "--engine", "doublechecker", "--memory", memory],
        );
        let forgot = said.stderr.contains("did not fit into --memory");
        assert_eq!(forgot, forgets, "{memory}: {}", said.stderr);
    }
}

#[test]
fn a_first_run_tells_a_second_where_to_look() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(out.path(), "late");
    let file = out.path().join("first");
    let first = file.to_str().unwrap();
    let said = run(&program, &["--first-run", first]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let text = fs::read_to_string(&file).unwrap();
    // `set` runs between two transactions of the component, and has no edge of its own.
    for region in ["withdraw", "look", "set"] {
        assert!(text.contains(&format!("region {region}\n")), "{text}");
    }
    let said = run(
        &program,
        &["--engine", "doublechecker", "--second-run", first],
    );
    assert!(said.stderr.contains("withdraw"), "{}", said.stderr);
    assert_eq!(said.code, 66);
}

/// What was found before a crash has been told.
#[test]
fn findings_survive_a_crash() {
    let out = tempfile::tempdir().unwrap();
    let source = root().join("tests/programs/c/late.c");
    let text = fs::read_to_string(source).unwrap();
    let crash = text.replace("return 0;\n}\n", "*(volatile int *)8 = 1;\n}\n");
    assert_ne!(crash, text);
    let program = compile_text(out.path(), "crash", &crash);
    let said = run(&program, &["--online"]);
    assert!(said.stderr.contains("withdraw"), "{}", said.stderr);
    assert_eq!(said.code, 128 + 11);
}
