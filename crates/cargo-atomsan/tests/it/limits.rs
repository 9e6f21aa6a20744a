//! What the tool says where it cannot see everything, or where the process may not have what it
//! needs: few addresses, libraries that are not instrumented, a crash that nobody watched.

use crate::support::{atomsan, command, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn compile(directory: &TempDir, name: &str, source: &Path) -> PathBuf {
    let program = directory.path().join(name);
    let compiled = command()
        .args(["cc", "-O1"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{stderr}");
    program
}

fn written(directory: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn wrong_program(directory: &TempDir) -> PathBuf {
    let source = root().join("tests/programs/c/withdraw-wrong.c");
    compile(directory, "wrong", &source)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A process with 2 GB of addresses is checked all the same, and the summary says what that means.
#[test]
fn few_addresses_are_enough() {
    let directory = tempfile::tempdir().unwrap();
    let program = wrong_program(&directory);
    let limited = "ulimit -v 2000000; exec \"$0\"";
    let found = (0..8).any(|_| {
        let output = command()
            .args(["run", "--noise", "sh", "-c", limited])
            .arg(&program)
            .output()
            .unwrap();
        let said = stderr(&output);
        assert!(said.contains("may have few addresses"), "{said}");
        said.contains("`withdraw` is not atomic")
    });
    assert!(found, "not found in 8 runs");
}

/// A first run, which finds nothing by itself, says what it could not see.
#[test]
fn a_first_run_says_what_it_could_not_see() {
    let directory = tempfile::tempdir().unwrap();
    let program = wrong_program(&directory);
    let file = directory.path().join("first");
    let output = command()
        .args(["run", "--first-run"])
        .arg(&file)
        .args(["--", "sh", "-c", "ulimit -v 2000000; exec \"$0\""])
        .arg(&program)
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(said.contains("a first run:"), "{said}");
    assert!(said.contains("may have few addresses"), "{said}");
}

/// Where there is no room at all, the program runs as it would without us, and we say so.
#[test]
fn without_addresses_the_program_is_unharmed() {
    let directory = tempfile::tempdir().unwrap();
    let program = wrong_program(&directory);
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 40000; exec \"$0\""])
        .arg(&program)
        .env("TMPDIR", directory.path())
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("this run is not checked"), "{said}");
}

/// A library that comes by `dlopen` and is not instrumented is named, also if it is closed again.
#[test]
fn libraries_that_come_later_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libplain.so");
    let source = written(&directory, "plain.c", "int add(int a) { return a + 1; }\n");
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC"])
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .status()
        .unwrap();
    assert!(built.success());
    let source = written(
        &directory,
        "loads.c",
        "#include <dlfcn.h>\n\
         int main(int count, char **arguments) {\n\
             void *library = dlopen(arguments[1], RTLD_NOW);\n\
             int (*add)(int) = (int (*)(int))dlsym(library, \"add\");\n\
             int result = add(1);\n\
             if (count > 2)\n\
                 dlclose(library);\n\
             return result != 2;\n\
         }\n",
    );
    let program = compile(&directory, "loads", &source);
    for closes in [&[][..], &["close"]] {
        let output = command()
            .arg("run")
            .arg(&program)
            .arg(&library)
            .args(closes)
            .output()
            .unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("libplain.so is not instrumented"), "{said}");
    }
}

/// Memory that the runtime looks through in large pieces is not taken for an interrupted handler:
/// libstdc++ allocates 72 kB before `main`.
#[test]
fn nothing_is_said_where_everything_was_seen() {
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("tests/programs/cpp/lazy-right.cpp");
    let program = directory.path().join("lazy");
    let compiled = command()
        .args(["c++", "-O1"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let said = stderr(&command().arg("run").arg(&program).output().unwrap());
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// What was forgotten is no finding: neither the locks that were held then, nor the order of what came
/// before and after.
#[test]
fn what_is_forgotten_is_no_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("tests/programs/c/uneven-right.c");
    let program = compile(&directory, "uneven", &source);
    for memory in ["1M", "2M", "4M"] {
        for _ in 0..3 {
            let mut run = command();
            run.args(["run", "--noise", "--memory", memory])
                .arg(&program);
            let output = run.arg("1000").output().unwrap();
            let said = stderr(&output);
            assert!(
                said.contains("the oldest were forgotten"),
                "{memory}: {said}"
            );
            assert!(said.contains("nothing found"), "{memory}: {said}");
        }
    }
}

/// One thread has much to do alone, and forgets nearly all of it; what others do meanwhile is not forgotten for that,
/// whether it is a mistake or not.
#[test]
fn who_is_busy_does_not_hide_what_others_do() {
    let directory = tempfile::tempdir().unwrap();
    let [wrong, right] = ["wrong", "right"].map(|which| {
        let source = root().join(format!("tests/programs/c/busy-{which}.c"));
        compile(&directory, which, &source)
    });
    for (program, said_of_it) in [(wrong, "lost-update"), (right, "nothing found")] {
        for _ in 0..3 {
            let mut run = command();
            run.args(["run", "--noise", "--memory", "2M"]).arg(&program);
            let said = stderr(&run.arg("3000").output().unwrap());
            assert!(said.contains("the oldest were forgotten"), "{said}");
            assert!(said.contains(said_of_it), "{said}");
        }
    }
}

/// clang does not announce accesses of more than 16 bytes, and the summary says so.
#[test]
fn vectors_that_clang_does_not_announce_are_mentioned() {
    let directory = tempfile::tempdir().unwrap();
    let by_hand = |attribute: &str| {
        format!(
            "#include <immintrin.h>\nstatic float sums[8];\n{attribute}\nstatic void sum(void) {{\n\
             __m256 sum = _mm256_loadu_ps(sums);\n_mm256_storeu_ps(sums, sum);\n}}\n\
             int main(void) {{ sum(); return 0; }}\n"
        )
    };
    let of_size = |bytes: u32| {
        format!(
            "typedef float vector __attribute__((vector_size({bytes})));\nstatic vector sums;\n\
             int main(void) {{ sums += sums; return 0; }}\n"
        )
    };
    // For all of it, for a function, by the language; and 16 bytes, which are announced.
    let whole = (by_hand(""), "-mavx", true);
    let function = (by_hand("__attribute__((target(\"avx2\")))"), "-O1", true);
    let (wide, narrow) = ((of_size(32), "-O1", true), (of_size(16), "-O1", false));
    let program = directory.path().join("wide");
    for (text, flag, is_wide) in [whole, function, wide, narrow] {
        let source = written(&directory, "wide.c", &text);
        for [compiler, _] in crate::compilers::compilers() {
            let compiled = command()
                .args(["cc", flag])
                .env("ATOMSAN_CC", compiler)
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .status()
                .unwrap();
            assert!(compiled.success());
            let said = stderr(&command().arg("run").arg(&program).output().unwrap());
            let mentioned = said.contains("compiled wide for vectors of more than 16 bytes");
            let expected = is_wide && compiler.contains("clang");
            assert_eq!(mentioned, expected, "{compiler} {flag}: {text}\n{said}");
        }
    }
}

/// A program that was started by itself and crashed leaves its recording; the next check names it,
/// and it can be checked.
#[test]
fn a_crash_that_nobody_watched_can_be_checked_later() {
    let directory = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("tests/programs/c/withdraw-wrong.c")).unwrap();
    let text = text.replace(
        "    return 0;\n",
        "    if (getenv(\"CRASH\")) raise(SIGKILL);\n    return 0;\n",
    );
    let text = format!("#include <signal.h>\n#include <stdlib.h>\n{text}");
    let program = compile(
        &directory,
        "crashes",
        &written(&directory, "crashes.c", &text),
    );
    let run = || {
        let mut run = Command::new(&program);
        run.env("TMPDIR", directory.path())
            .env_remove("LD_LIBRARY_PATH")
            .env("ATOMSAN_NOISE", "16");
        run
    };
    let crashed = run().env("CRASH", "1").output().unwrap();
    assert_eq!(crashed.status.code(), None);
    let said = stderr(&run().output().unwrap());
    let line = said
        .lines()
        .find(|line| line.contains("ended without a check"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let file = line
        .split("atomsan recorded ")
        .nth(1)
        .unwrap()
        .split('`')
        .next()
        .unwrap();
    let output = command().args(["recorded", file]).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains(" shared events of 3 threads"), "{said}");
    assert!(!Path::new(file).exists());
}

/// `--regions` names the directories whose functions are expected to be atomic.
#[test]
fn regions_of_a_program_are_directories() {
    let directory = tempfile::tempdir().unwrap();
    for folder in ["bank", "shop"] {
        fs::create_dir(directory.path().join(folder)).unwrap();
    }
    let bank = "#include <pthread.h>\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static int balance = 100000;\n\
        void withdraw(int amount) {\n\
            pthread_mutex_lock(&lock);\n\
            int seen = balance;\n\
            pthread_mutex_unlock(&lock);\n\
            pthread_mutex_lock(&lock);\n\
            balance = seen - amount;\n\
            pthread_mutex_unlock(&lock);\n\
        }\n";
    let shop = "#include <pthread.h>\n\
        void withdraw(int amount);\n\
        static void *customer(void *unused) {\n\
            for (int i = 0; i < 2000; i++)\n\
                withdraw(1);\n\
            return unused;\n\
        }\n\
        int main(void) {\n\
            pthread_t threads[2];\n\
            for (int i = 0; i < 2; i++)\n\
                pthread_create(&threads[i], NULL, customer, NULL);\n\
            for (int i = 0; i < 2; i++)\n\
                pthread_join(threads[i], NULL);\n\
            return 0;\n\
        }\n";
    let program = directory.path().join("program");
    let compiled = command()
        .args(["cc", "-O1"])
        .arg(written(&directory, "bank/bank.c", bank))
        .arg(written(&directory, "shop/shop.c", shop))
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let named = |folder: &str| {
        let output = command()
            .args(["run", "--noise", "--regions"])
            .arg(directory.path().join(folder))
            .arg(&program)
            .output()
            .unwrap();
        stderr(&output).contains("`withdraw` is not atomic")
    };
    assert!((0..8).any(|_| named("bank")), "not found in 8 runs");
    assert!(!(0..3).any(|_| named("shop")), "nobody asked for it");
}

/// What looks like an option is no program, and what is behind the program is the program's.
#[test]
fn options_that_there_are_none_of() {
    for option in ["--onlin", "-x"] {
        let said = atomsan(&["run", option, "/bin/echo", "-n", "--online"]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        let expected = format!("unexpected argument '{option}' found");
        assert!(said.stderr.contains(&expected), "{}", said.stderr);
    }
    for arguments in [
        &["run", "/bin/echo", "-n", "--online"][..],
        &["run", "--", "/bin/echo", "-n", "--online"],
    ] {
        let said = atomsan(arguments);
        assert_eq!(
            (said.code, &*said.stdout),
            (0, "--online"),
            "{}",
            said.stderr
        );
    }
}
