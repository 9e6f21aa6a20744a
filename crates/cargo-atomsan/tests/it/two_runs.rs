//! Two runs: the first one finds out what is worth a look, in many processes and on many machines, and
//! the second one looks.

use crate::online::{compile, run};
use crate::support::{Said, atomsan, command};
use std::fs;
use std::path::Path;
use std::process::Command;

fn regions(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let regions = text.lines().filter_map(|line| line.strip_prefix("region "));
    regions.map(str::to_owned).collect()
}

#[test]
fn files_of_several_runs_are_merged() {
    let out = tempfile::tempdir().unwrap();
    let at = |name: &str| out.path().join(name);
    let mut files = Vec::new();
    for name in ["withdraw-wrong", "counter-wrong"] {
        let program = compile(out.path(), name);
        let file = at(&format!("{name}.first"));
        let said = run(
            &program,
            &["--noise", "--first-run", file.to_str().unwrap()],
        );
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(
            said.stderr.contains("to check in a second run"),
            "{}",
            said.stderr
        );
        files.push(file);
    }
    let all = at("all.first");
    let names = [&files[0], &files[1], &all].map(|file| file.to_str().unwrap());
    let said = atomsan(&["merge", names[0], names[1], "-o", names[2]]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(regions(&all), ["count", "withdraw"]);
    let arguments = ["--engine", "doublechecker", "--noise", "--second-run"];
    for (name, culprit) in [
        ("withdraw-wrong", "`withdraw`"),
        ("counter-wrong", "`count`"),
    ] {
        let second = [&arguments[..], &[names[2]]].concat();
        let said = run(&at(name), &second);
        assert_eq!(said.code, 66, "{name}: {}", said.stderr);
        assert!(said.stderr.contains(culprit), "{}", said.stderr);
    }
    // What no first run has found is not looked at.
    let other = [&arguments[..], &[names[1]]].concat();
    let said = run(&at("withdraw-wrong"), &other);
    assert_eq!(said.code, 0, "{}", said.stderr);
}

/// `./prog` takes options from the environment; each process adds to the file.
#[test]
fn programs_that_are_started_by_themselves() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("all.first");
    let alone = |program: &Path, options: &str| {
        let mut command = Command::new(program);
        command
            .env_remove("LD_LIBRARY_PATH")
            .env("ATOMSAN_NOISE", "16")
            .env("ATOMSAN_OPTIONS", format!("{options} {}", file.display()));
        Said::from(command.output().unwrap())
    };
    for name in ["withdraw-wrong", "counter-wrong"] {
        let program = compile(out.path(), name);
        let said = alone(&program, "--first-run");
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
    assert_eq!(regions(&file), ["count", "withdraw"]);
    let said = alone(
        &out.path().join("withdraw-wrong"),
        "--engine doublechecker --second-run",
    );
    assert_eq!(said.code, 66, "{}", said.stderr);
    assert!(
        said.stderr.contains("`withdraw` is not atomic"),
        "{}",
        said.stderr
    );
}

#[test]
fn all_test_binaries_of_a_package() {
    let out = tempfile::tempdir().unwrap();
    let bank = "use std::sync::Mutex;
        pub fn withdraw(account: &Mutex<i64>) {
            let seen = *account.lock().unwrap();
            *account.lock().unwrap() = seen - 1;
        }
        pub fn deposit(account: &Mutex<i64>) {
            let seen = *account.lock().unwrap();
            *account.lock().unwrap() = seen + 1;
        }";
    let test = |function: &str| {
        format!(
            "#[test]
            fn both() {{
                let account = std::sync::Mutex::new(0);
                std::thread::scope(|scope| {{
                    for _ in 0..2 {{
                        scope.spawn(|| (0..500).for_each(|_| bank::{function}(&account)));
                    }}
                }});
            }}"
        )
    };
    let write = |path: &str, text: &str| {
        let path = out.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "Cargo.toml",
        "[package]\nname = \"bank\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ndoctest = false\n[workspace]\n",
    );
    write("src/lib.rs", bank);
    write("tests/one.rs", &test("withdraw"));
    write("tests/two.rs", &test("deposit"));
    let cargo = |arguments: &[&str]| {
        let mut command = command();
        command
            .current_dir(out.path())
            .args(["cargo", "test", "--noise"])
            .args(arguments);
        for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(variable);
        }
        Said::from(command.output().unwrap())
    };
    let said = cargo(&["--first-run", "all.first"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let found = regions(&out.path().join("all.first"));
    assert_eq!(found, ["bank::deposit", "bank::withdraw"]);
    let said = cargo(&["--engine", "doublechecker", "--second-run", "all.first"]);
    assert_eq!(said.code, 66, "{}", said.stderr);
    for culprit in found {
        let finding = format!("`{culprit}` is not atomic");
        assert!(said.stderr.contains(&finding), "{}", said.stderr);
    }
}
