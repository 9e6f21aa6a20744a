//! A workspace over many runs, through cargo: the recipe of `docs/CI.md` as it stands there, the
//! last run, the configuration, refinement.

use crate::support::{Said, command, root};
use std::fs;
use std::path::Path;
use std::process::Command;

const BANK: &str = r#"
use std::sync::Mutex;

pub static BALANCE: Mutex<i64> = Mutex::new(100_000);

pub fn withdraw(amount: i64) {
    let seen = *BALANCE.lock().unwrap();
    *BALANCE.lock().unwrap() = seen - amount;
}

#[test]
fn two_customers() {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    withdraw(1);
                }
            });
        }
    });
}
"#;

fn project(directory: &Path) {
    let manifest =
        "[package]\nname = \"bank\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(directory.join("src")).unwrap();
    fs::write(directory.join("src/lib.rs"), BANK).unwrap();
}

/// A shell in which `cargo atomsan` is installed.
fn shell(directory: &Path, script: &str) -> Said {
    let bin = Path::new(env!("CARGO_BIN_EXE_cargo-atomsan"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", bin.parent().unwrap().display());
    Command::new("sh")
        .arg("-c")
        .arg(script)
        .current_dir(directory)
        .env("PATH", path)
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap()
        .into()
}

/// Until it ends in this way: what is seen depends on the schedule.
fn shell_until(directory: &Path, script: &str, code: i32) -> Said {
    let mut last = None;
    for _ in 0..6 {
        let said = shell(directory, script);
        if said.code == code {
            return said;
        }
        last = Some(said);
    }
    let last = last.unwrap();
    panic!(
        "never {code}, but {}: {}{}",
        last.code, last.stdout, last.stderr
    );
}

/// The code blocks of a shell in a document.
fn blocks(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs").join(document)).unwrap();
    let blocks = text.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_recipe_of_the_documentation() {
    let out = tempfile::tempdir().unwrap();
    project(out.path());
    let blocks = blocks("CI.md");
    let [first, recipe, ..] = blocks.as_slice() else {
        panic!("{blocks:?}");
    };
    assert!(first.contains("--write-baseline") && recipe.contains("--sarif"));
    shell(out.path(), "git init -q .");
    shell_until(out.path(), "cargo atomsan test --noise", 66);
    let baseline = out.path().join("atomsan-baseline.txt");
    for _ in 0..6 {
        let said = shell(out.path(), first);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
        if fs::read_to_string(&baseline).unwrap().lines().count() == 2 {
            break;
        }
    }
    let text = fs::read_to_string(&baseline).unwrap();
    assert!(
        text.ends_with(" lost-update bank::withdraw (src/lib.rs)\n"),
        "{text}"
    );

    let said = shell(out.path(), recipe);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let sarif = || -> serde_json::Value {
        let text = fs::read_to_string(out.path().join("atomsan.sarif")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    for result in sarif()["runs"][0]["results"].as_array().unwrap() {
        assert_eq!(result["suppressions"][0]["kind"], "external", "{result}");
        assert_eq!(result["baselineState"], "unchanged");
    }

    // The same, edited, and a mistake that is new.
    let more = BANK
        .replace("use std", "//! A bank.\n\nuse std")
        .replace("seen", "before")
        .replace(
            "withdraw(1);",
            "withdraw(1);\n                    deposit(1);",
        )
        + "\npub fn deposit(amount: i64) {\n    let seen = *BALANCE.lock().unwrap();\n    \
           *BALANCE.lock().unwrap() = seen + amount;\n}\n";
    fs::write(out.path().join("src/lib.rs"), more).unwrap();
    let said = shell_until(out.path(), recipe, 66);
    assert!(
        said.stderr.contains("`bank::deposit` is not atomic"),
        "{}",
        said.stderr
    );
    assert!(
        !said.stderr.contains("`bank::withdraw` is not atomic"),
        "{}",
        said.stderr
    );
    let sarif = sarif();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let new = |one: &&serde_json::Value| one["suppressions"].is_null();
    assert_eq!(results.iter().filter(new).count(), 1, "{sarif}");
}

#[test]
fn a_workspace() {
    let out = tempfile::tempdir().unwrap();
    project(out.path());
    let said = shell(out.path(), "cargo atomsan report");
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(
        said.stderr.contains("there is no last run in"),
        "{}",
        said.stderr
    );

    // The configuration beside the manifest counts from everywhere, and its mistakes come first.
    let config = out.path().join("atomsan.toml");
    fs::write(&config, "noise = 16\nregion = \"workspace\"\n").unwrap();
    let manifest = out.path().join("Cargo.toml");
    let from_elsewhere = |arguments: &[&str]| -> Said {
        command()
            .current_dir("/")
            .env_remove("CARGO_TARGET_DIR")
            .args(["cargo", "test"])
            .args(arguments)
            .arg("--manifest-path")
            .arg(&manifest)
            .output()
            .unwrap()
            .into()
    };
    let said = from_elsewhere(&[]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (2, ""),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr
            .contains("atomsan.toml:2:1: there is no setting `region`")
    );
    fs::write(&config, "noise = 16\nfail-on = \"high\"\n").unwrap();
    shell_until(out.path(), "cargo atomsan test --lib", 66);

    // The last run, in other formats.
    let last = out.path().join("target/atomsan/last-run.json");
    assert!(last.exists());
    let said = shell(out.path(), "cargo atomsan report");
    assert!(
        said.stdout.contains("`bank::withdraw` is not atomic"),
        "{}",
        said.stdout
    );
    let said = shell(out.path(), "cargo atomsan report --junit");
    assert!(
        said.stdout.contains(" type=\"lost-update\">"),
        "{}",
        said.stdout
    );
    let said = shell(
        out.path(),
        "BROWSER='test -s' cargo atomsan report --html --open",
    );
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let page = fs::read_to_string(last.with_extension("html")).unwrap();
    assert!(page.contains("bank::withdraw"));
    let said = shell(
        out.path(),
        "BROWSER=false cargo atomsan report --html --open -o page.html",
    );
    if !said.stderr.is_empty() {
        assert!(
            said.stderr.contains("there is no browser to open it with"),
            "{}",
            said.stderr
        );
        assert!(said.stderr.contains("page.html"), "{}", said.stderr);
    }
    assert!(out.path().join("page.html").exists());

    // What is suppressed does not fail; cargo's own `--config` is left to cargo.
    let suppress = "noise = 16\n[[suppress]]\nfile = \"src/lib.rs\"\nreason = \"an example\"\n";
    fs::write(&config, suppress).unwrap();
    let said = shell(out.path(), "cargo atomsan test --config build.jobs=1 --lib");
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = shell(
        out.path(),
        "cargo atomsan test --atomsan-config none.toml --lib",
    );
    assert_eq!(said.code, 1);
    assert!(
        said.stderr
            .contains("cannot read the configuration none.toml"),
        "{}",
        said.stderr
    );
    fs::write(&config, "noise = 16\n").unwrap();

    let said = shell(out.path(), "cargo atomsan refine --trials 2 test --lib");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(
        said.stdout, "[spec]\nnot-atomic = [\n  \"bank::withdraw\",\n]\n",
        "{}",
        said.stderr
    );
}
