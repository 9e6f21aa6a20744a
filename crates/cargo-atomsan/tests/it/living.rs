//! Living with findings over many runs: the last run, merging, refinement, edits of the program.

use crate::support::{Said, command, root};
use std::fs;
use std::path::{Path, PathBuf};

fn source(name: &str) -> String {
    fs::read_to_string(root().join("tests/programs/c").join(name)).unwrap()
}

/// Compiles C into `directory/prog`.
fn compile(directory: &Path, text: &str) -> PathBuf {
    let (source, program) = (directory.join("prog.c"), directory.join("prog"));
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

fn atomsan(directory: &Path, arguments: &[&str]) -> Said {
    command()
        .current_dir(directory)
        .args(arguments)
        .output()
        .unwrap()
        .into()
}

/// Runs until something is found: what threads do depends on the schedule.
fn run(directory: &Path, arguments: &[&str], wanted: i32) -> Said {
    let mut all = vec!["run", "--noise"];
    all.extend(arguments);
    all.push("./prog");
    for _ in 0..8 {
        let said = atomsan(directory, &all);
        if said.code == wanted {
            return said;
        }
    }
    panic!("never {wanted}: {}", atomsan(directory, &all).stderr);
}

/// Lines inserted above and a local renamed change neither the function nor what is wrong.
#[test]
fn a_baseline_survives_edits() {
    let out = tempfile::tempdir().unwrap();
    let text = source("withdraw-wrong.c");
    compile(out.path(), &text);
    run(out.path(), &[], 66);
    run(out.path(), &["--write-baseline=known.txt"], 0);
    let known = fs::read_to_string(out.path().join("known.txt")).unwrap();
    assert_eq!(known.lines().count(), 2, "{known}");
    assert!(
        known.ends_with(&format!(
            " lost-update withdraw ({}/prog.c)\n",
            out.path().file_name().unwrap().display()
        )),
        "{known}"
    );

    let elsewhere = tempfile::tempdir().unwrap();
    let edited = text
        .replace("#include", "\n\n/* Later. */\n#include")
        .replace("seen", "observed");
    assert_ne!(text, edited);
    compile(elsewhere.path(), &edited);
    fs::write(elsewhere.path().join("known.txt"), known).unwrap();
    run(elsewhere.path(), &[], 66);
    for _ in 0..3 {
        let said = atomsan(
            elsewhere.path(),
            &["run", "--noise", "--baseline=known.txt", "./prog"],
        );
        assert_eq!(said.code, 0, "{}", said.stderr);
    }

    // In the same function, another gap is new, with the old one and without it.
    let gap = |name: &str| {
        format!(
            "    pthread_mutex_lock(&lock);\n    int old = {name};\n    pthread_mutex_unlock(&lock);\n    \
             pthread_mutex_lock(&lock);\n    {name} = old + amount;\n    pthread_mutex_unlock(&lock);\n"
        )
    };
    let head = "static void withdraw(int amount)\n{\n";
    let (start, rest) = edited.split_once(head).unwrap();
    let (_, rest) = rest.split_once("\n}\n").unwrap();
    let body = gap("taken");
    let alone = format!("{start}static int taken;\n{head}{body}}}\n{rest}");
    let both = edited.replace(head, &format!("static int taken;\n{head}{body}"));
    for (text, remark) in [
        (alone, "1 finding in"),
        (both, "not counted: 1 in the baseline"),
    ] {
        compile(elsewhere.path(), &text);
        let said = run(elsewhere.path(), &["--baseline=known.txt"], 66);
        assert!(said.stderr.contains("`taken`"), "{}", said.stderr);
        assert!(said.stderr.contains(remark), "{}", said.stderr);
    }

    // Another function that is wrong is new.
    let more = edited
        .replace("withdraw", "take")
        .replace("balance", "stock");
    compile(elsewhere.path(), &more);
    run(elsewhere.path(), &["--baseline=known.txt"], 66);
}

/// A wrong baseline or configuration is told before the program is run.
#[test]
fn mistakes_come_before_the_run() {
    let out = tempfile::tempdir().unwrap();
    compile(
        out.path(),
        "int puts(const char *); int main(void) { puts(\"ran\"); return 0; }",
    );
    let said = atomsan(out.path(), &["run", "--baseline=none.txt", "./prog"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (1, ""),
        "{}",
        said.stderr
    );
    fs::write(out.path().join("atomsan.toml"), "nois = 3").unwrap();
    let said = atomsan(out.path(), &["run", "./prog"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (2, ""),
        "{}",
        said.stderr
    );
    fs::write(
        out.path().join("atomsan.toml"),
        "noise = 3\nmemory = \"64M\"",
    )
    .unwrap();
    let said = atomsan(out.path(), &["run", "./prog"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (0, "ran\n"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_last_run_is_shown_again() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(out.path(), &source("withdraw-wrong.c"));
    let cache = out.path().join("cache");
    let atomsan = |arguments: &[&str]| -> Said {
        command()
            .current_dir(out.path())
            .env("XDG_CACHE_HOME", &cache)
            .args(arguments)
            .output()
            .unwrap()
            .into()
    };
    let said = atomsan(&["report"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("there is no last run in"),
        "{}",
        said.stderr
    );
    run(out.path(), &["--save=mine.json"], 66);
    let program = program.to_str().unwrap();
    let ran = (0..8)
        .map(|_| atomsan(&["run", "--noise", program]))
        .find(|said| said.code == 66)
        .unwrap();
    fs::remove_file(program).unwrap();
    let said = atomsan(&["report"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stdout.contains("`withdraw` is not atomic"),
        "{}",
        said.stdout
    );
    assert_eq!(said.stdout.lines().next(), ran.stderr.lines().next());
    assert!(
        said.stdout.contains("atomsan: 1 finding in "),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains(" of 3 threads in 1 process\n"),
        "{}",
        said.stdout
    );
    let json = atomsan(&["report", "--json", "mine.json"]).json();
    assert_eq!(json["findings"][0]["culprit"]["function"], "withdraw");
    let said = atomsan(&["report", "--json", "-o", "again.json", "mine.json"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""));
    let again = atomsan(&["report", "--json", "again.json"]).json();
    assert_eq!(again, json);
}

#[test]
fn damaged_documents() {
    let out = tempfile::tempdir().unwrap();
    for (text, message) in [
        ("", "is empty"),
        ("{\"version\":7}", "the document has version 7"),
        ("{\"version\":1", "not a JSON document of atomsan"),
        ("T1|r(x)|3", "not a JSON document of atomsan"),
    ] {
        fs::write(out.path().join("x.json"), text).unwrap();
        let said = atomsan(out.path(), &["report", "x.json"]);
        assert_eq!(said.code, 1, "{text}");
        assert!(said.stderr.contains("x.json"), "{}", said.stderr);
        assert!(said.stderr.contains(message), "{}", said.stderr);
    }
}

#[test]
fn documents_of_shards_are_merged() {
    let out = tempfile::tempdir().unwrap();
    let trace = root().join("examples/withdraw.rr").canonicalize().unwrap();
    let trace = trace.to_str().unwrap();
    for (engine, file) in [("velodrome", "1.json"), ("velodrome,blocks", "2.json")] {
        let said = atomsan(
            out.path(),
            &["check", "--json", "-o", file, "--engine", engine, trace],
        );
        assert_eq!(said.code, 66);
    }
    let said = atomsan(out.path(), &["merge", "1.json", "2.json", "1.json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let all = said.json();
    let one = atomsan(out.path(), &["report", "--json", "1.json"]).json();
    assert_eq!(
        all["events"].as_u64(),
        one["events"].as_u64().map(|n| 3 * n)
    );
    assert_eq!(all["engine"], "velodrome,blocks");
    assert_eq!(all["merged"]["documents"], 3);
    let findings = all["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0]["count"], 3);
    assert_eq!(findings[0]["rank"], one["findings"][0]["rank"]);
    assert_eq!(
        findings[0]["fingerprint"],
        one["findings"][0]["fingerprint"]
    );
    // Merging what was merged is the same.
    atomsan(out.path(), &["merge", "1.json", "2.json", "-o", "3.json"]);
    let again = atomsan(out.path(), &["merge", "3.json", "1.json"]).json();
    assert_eq!(again["findings"], all["findings"]);
    assert_eq!(again["merged"], all["merged"]);
}

#[test]
fn first_runs_and_baselines_are_merged() {
    let out = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(out.path().join(name), text).unwrap();
    write(
        "1.first",
        "# atomsan doublechecker first run 1\nunary no\nregion f\n",
    );
    write(
        "2.first",
        "# atomsan doublechecker first run 1\nunary yes\nregion g\n",
    );
    write(
        "1.known",
        "# atomsan baseline 1\n00000000000000aa cycle f\n",
    );
    write(
        "2.known",
        "# atomsan baseline 1\n00000000000000bb cycle e\n",
    );
    write("1.yields", "# why\natomsan yields 1\nyield\t1\tf:2:3\n");
    write("2.yields", "atomsan yields 1\nyield\t2\tf:2:3\n");
    write("x.json", "{}");
    write("notes", "buy milk\n");
    let merged = |files: &[&str]| {
        let mut arguments = vec!["merge"];
        arguments.extend(files);
        atomsan(out.path(), &arguments)
    };
    let said = merged(&["1.first", "2.first"]);
    assert_eq!(
        said.stdout,
        "# atomsan doublechecker first run 1\nunary yes\nregion f\nregion g\n"
    );
    let said = merged(&["1.known", "2.known"]);
    assert_eq!(
        said.stdout,
        "# atomsan baseline 1\n00000000000000bb cycle e\n00000000000000aa cycle f\n"
    );
    let said = merged(&["1.yields", "2.yields"]);
    assert!(said.stdout.contains("yield\t3\tf:2:3"), "{}", said.stdout);

    let said = merged(&["1.first", "x.json"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains(
            "1.first is a first run of doublechecker and x.json is a document: only files of one \
             kind can be merged"
        ),
        "{}",
        said.stderr
    );
    let said = merged(&["1.first", "notes"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("notes: this cannot be merged"),
        "{}",
        said.stderr
    );
}

/// Figure 6 of DoubleChecker: what is blamed is removed until nothing new is found.
#[test]
fn refinement() {
    let out = tempfile::tempdir().unwrap();
    compile(out.path(), &source("withdraw-wrong.c"));
    let refine = |more: &[&str]| {
        let mut arguments = vec!["refine"];
        arguments.extend(more);
        arguments.extend(["--noise", "./prog"]);
        atomsan(out.path(), &arguments)
    };
    let said = refine(&["--trials=3"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stdout, "[spec]\nnot-atomic = [\n  \"withdraw\",\n]\n");
    assert!(
        said.stderr
            .contains("`withdraw` is not atomic (lost-update, "),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("nothing new, 3 of 3"),
        "{}",
        said.stderr
    );
    let spec = fs::read_to_string(out.path().join("atomsan.spec")).unwrap();
    assert_eq!(spec.lines().last(), Some("!withdraw"), "{spec}");
    let history = fs::read_to_string(out.path().join("atomsan.spec.history")).unwrap();
    let runs = history.lines().count();
    assert!(runs >= 5, "{history}");

    // The specification is one: nothing is found any more.
    let said = atomsan(out.path(), &["run", "--spec=atomsan.spec", "./prog"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    fs::write(
        out.path().join("atomsan.toml"),
        &refine(&["--trials=3"]).stdout,
    )
    .unwrap();
    let said = atomsan(out.path(), &["run", "./prog"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    fs::remove_file(out.path().join("atomsan.toml")).unwrap();

    // It was finished; with more trials it goes on.
    let said = refine(&["--trials=4"]);
    assert!(
        said.stderr
            .contains(&format!("goes on after {} runs", runs - 1)),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("nothing new, 4 of 4"),
        "{}",
        said.stderr
    );
    assert!(
        !said.stderr.contains("nothing new, 3 of 4"),
        "{}",
        said.stderr
    );
    let said = atomsan(out.path(), &["refine", "./prog", "other"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr
            .contains("is the history of `--noise ./prog`; use --restart"),
        "{}",
        said.stderr
    );
}

/// What a run is in the history, with what differs from run to run made the same.
#[test]
fn the_history_of_a_refinement() {
    let out = tempfile::tempdir().unwrap();
    compile(out.path(), &source("withdraw-wrong.c"));
    let said = atomsan(out.path(), &["refine", "--trials=1", "--noise", "./prog"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let history = fs::read_to_string(out.path().join("atomsan.spec.history")).unwrap();
    let mut lines: Vec<serde_json::Value> = (history.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Runs before the first that finds something are left out.
    let found = |line: &serde_json::Value| line["removed"].get(0).is_some();
    let first = lines.iter().position(found).unwrap();
    lines.drain(1..first);
    lines.truncate(3);
    for line in &mut lines[1..] {
        for (field, steady) in [
            ("run", 1.into()),
            ("at", "then".into()),
            ("seconds", 1.into()),
        ] {
            line[field] = steady;
        }
        line["events"] = 1.into();
        if let Some(removed) = line["removed"].get_mut(0) {
            removed["file"] = "prog.c".into();
            for field in ["engine", "status"] {
                removed[field] = "either".into();
            }
        }
    }
    let pretty = serde_json::to_string_pretty(&lines).unwrap();
    insta::assert_snapshot!("refine-history", pretty);
}

/// Ctrl-C in the middle of a run loses that run only.
#[test]
fn an_interrupted_refinement_goes_on() {
    let out = tempfile::tempdir().unwrap();
    let program = "#include <pthread.h>\n#include <unistd.h>\n#include <stdlib.h>\n\
         static void *nothing(void *p) { return p; }\n\
         int main(void) { pthread_t t; pthread_create(&t, 0, nothing, 0); pthread_join(t, 0);\n\
         if (access(\"slow\", F_OK) == 0) { close(creat(\"started\", 0600)); sleep(60); } return 0; }\n";
    compile(
        out.path(),
        &program.replace("#include <stdlib.h>", "#include <fcntl.h>"),
    );
    let refine = |trials: &str| {
        let mut refine = command();
        refine
            .current_dir(out.path())
            .args(["refine", trials, "./prog"]);
        refine
    };
    let said: Said = refine("--trials=2").output().unwrap().into();
    assert_eq!(said.code, 0, "{}", said.stderr);
    fs::write(out.path().join("slow"), "").unwrap();
    let mut third = refine("--trials=3");
    third.stderr(std::process::Stdio::piped());
    // In a group of its own, as a shell does it.
    std::os::unix::process::CommandExt::process_group(&mut third, 0);
    let child = third.spawn().unwrap();
    while !out.path().join("started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!(said.code, 130, "{}", said.stderr);
    let message = "interrupted after 2 runs; the same command goes on";
    assert!(said.stderr.contains(message), "{}", said.stderr);
    fs::remove_file(out.path().join("slow")).unwrap();
    let said: Said = refine("--trials=3").output().unwrap().into();
    assert!(
        said.stderr.contains("goes on after 2 runs"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("run 3: nothing new, 3 of 3"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_refinement_that_cannot_run_says_why() {
    let out = tempfile::tempdir().unwrap();
    let said = atomsan(out.path(), &["refine", "./none"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("cannot run ./none"), "{}", said.stderr);
    let said = atomsan(out.path(), &["refine", "true"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("nothing was seen"), "{}", said.stderr);
}

/// What a user says of their own functions.
#[test]
fn a_model_hides_implementation() {
    let out = tempfile::tempdir().unwrap();
    compile(
        out.path(),
        r#"
        #include <pthread.h>
        #include <stdatomic.h>
        static atomic_long hits;
        static void count_hit(void) {
            long before = atomic_load(&hits);
            atomic_store(&hits, before + 1);
        }
        static void *worker(void *unused) {
            for (int i = 0; i < 2000; i++)
                count_hit();
            return unused;
        }
        int main(void) {
            pthread_t threads[2];
            for (int i = 0; i < 2; i++)
                pthread_create(&threads[i], 0, worker, 0);
            for (int i = 0; i < 2; i++)
                pthread_join(threads[i], 0);
            return 0;
        }
        "#,
    );
    let said = run(out.path(), &[], 66);
    assert!(
        said.stderr.contains("`count_hit` is not atomic"),
        "{}",
        said.stderr
    );
    let model = "[[model]]\nfunction = \"count_*\"\nis = \"hidden\"\n";
    fs::write(out.path().join("atomsan.toml"), model).unwrap();
    for _ in 0..3 {
        let said = atomsan(out.path(), &["run", "--noise", "./prog"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
}
