//! `cargo atomsan` on projects of a user's: what cargo can do, it does the same with checking.

use crate::support::{Said, command, copy_executable};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// What is wrong in all of them.
const WITHDRAW: &str = "
pub fn withdraw(account: &std::sync::Mutex<i64>, amount: i64) {
    let balance = *account.lock().unwrap();
    *account.lock().unwrap() = balance - amount;
}
pub fn both() {
    let account = std::sync::Mutex::new(1000);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..1000).for_each(|_| withdraw(&account, 1)));
        }
    });
}
";

fn write(directory: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}")
}

/// A crate with one program.
fn program(main: &str, more: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let manifest = manifest("bank", "[features]\nloud = []\n[workspace]\n");
    write(
        directory.path(),
        &[("Cargo.toml", &manifest), ("src/main.rs", main)],
    );
    write(directory.path(), more);
    directory
}

fn simple() -> String {
    format!("{WITHDRAW} fn main() {{ both() }}")
}

/// In a directory, without what the tests themselves run under.
fn atomsan(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = command();
    command.current_dir(directory).args(arguments);
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

fn says(command: &mut Command) -> Said {
    command.output().unwrap().into()
}

fn cargo(directory: &Path, arguments: &[&str]) -> Said {
    says(atomsan(directory, &["cargo"]).args(arguments))
}

#[track_caller]
fn found(said: &Said) {
    assert_eq!(said.code, 66, "{}\n{}", said.stdout, said.stderr);
    assert!(
        said.stderr.contains("withdraw` is not atomic"),
        "{}",
        said.stderr
    );
}

/// Whether a toolchain or tool is there that not every machine has.
fn there(command: &mut Command) -> bool {
    let there = command.output().is_ok_and(|output| output.status.success());
    if !there {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must have it: {command:?}"
        );
        eprintln!("skipped: {command:?} does not work here");
    }
    there
}

/// A workspace with all that cargo can have in its graph.
static SHOP: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    // Neither must be instrumented: they look at themselves.
    let looks = "
        fn look(file: &str) {
            let hook: String = \"yrtne_cnuf_nast__\".chars().rev().collect();
            let bytes = std::fs::read(file).unwrap();
            let found = bytes.windows(hook.len()).any(|window| window == hook.as_bytes());
            assert!(!found, \"{file} is instrumented\");
        }";
    let build = format!("{looks} fn main() {{ look(\"/proc/self/exe\") }}");
    let macros = format!(
        "{looks}
        #[proc_macro]
        pub fn looks_at_itself(_: proc_macro::TokenStream) -> proc_macro::TokenStream {{
            let maps = std::fs::read_to_string(\"/proc/self/maps\").unwrap();
            let own = maps.lines().find(|line| line.contains(\"libmacros\")).unwrap();
            look(&own[own.find('/').unwrap()..]);
            \"pub const LOOKED: bool = true;\".parse().unwrap()
        }}"
    );
    let bank = format!(
        "{WITHDRAW}
        macros::looks_at_itself!();
        /// ```
        /// assert!(bank::LOOKED);
        /// bank::both();
        /// ```
        pub fn documented() {{}}
        #[cfg(test)] mod tests {{
            #[test] fn one() {{ super::both() }}
            #[test] fn two() {{ super::both() }}
            #[test] fn three() {{ super::both() }}
        }}"
    );
    let near = WITHDRAW.replace("withdraw", "near_withdraw");
    let far = WITHDRAW.replace("withdraw", "far_withdraw");
    write(
        directory.path(),
        &[
            (
                "shop/Cargo.toml",
                "[workspace]\nresolver = \"3\"\nmembers = [\"bank\", \"macros\", \"app\"]\n",
            ),
            (
                "shop/bank/Cargo.toml",
                &manifest(
                    "bank",
                    "[dependencies]\nmacros = { path = \"../macros\" }\n\
                     [[bench]]\nname = \"speed\"\nharness = false\n",
                ),
            ),
            ("shop/bank/build.rs", &build),
            ("shop/bank/src/lib.rs", &bank),
            ("shop/bank/benches/speed.rs", "fn main() { bank::both() }"),
            (
                "shop/macros/Cargo.toml",
                &manifest("macros", "[lib]\nproc-macro = true\n"),
            ),
            ("shop/macros/src/lib.rs", &macros),
            (
                "shop/app/Cargo.toml",
                &manifest("app", "[dependencies]\nnear = { path = \"../../near\" }\n"),
            ),
            (
                "shop/app/src/main.rs",
                "fn main() { near::both(); near::far(); }",
            ),
            (
                "near/Cargo.toml",
                &manifest(
                    "near",
                    "[dependencies]\nfar = { path = \"../far\" }\n[workspace]\n",
                ),
            ),
            (
                "near/src/lib.rs",
                &format!("{near} pub fn far() {{ far::both() }}"),
            ),
            ("far/Cargo.toml", &manifest("far", "[workspace]\n")),
            ("far/src/lib.rs", &far),
        ],
    );
    directory
});

fn shop() -> PathBuf {
    SHOP.path().join("shop")
}

#[test]
fn tests_of_a_workspace_and_of_its_documentation() {
    let said = cargo(&shop(), &["test"]);
    found(&said);
    assert!(
        said.stdout.contains("src/lib.rs - documented (line"),
        "{}",
        said.stdout
    );
    assert!(said.stderr.contains(" processes"), "{}", said.stderr);
    // A test binary and a documentation test that show the same.
    assert_eq!(
        said.stderr.matches("withdraw` is not atomic").count(),
        1,
        "{}",
        said.stderr
    );
    let plain = shop().join("target/debug");
    assert!(!plain.exists(), "the user's own build is left alone");
    let said = cargo(&shop(), &["test", "-p", "bank", "--lib", "--", "one"]);
    found(&said);
    assert!(said.stdout.contains("1 passed"), "{}", said.stdout);
}

#[test]
fn nextest_has_a_process_for_each_test_and_one_finding() {
    if !there(Command::new("cargo").args(["nextest", "--version"])) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("nextest.toml");
    std::fs::write(&profile, "[profile.default.junit]\npath = \"tests.xml\"\n").unwrap();
    let config = profile.to_str().unwrap();
    let arguments = ["nextest", "--noise", "run", "-p", "bank", "--config-file"];
    let said = cargo(&shop(), &[&arguments[..], &[config]].concat());
    found(&said);
    let file = shop().join("target/nextest/default/tests.xml");
    let tests = std::fs::read_to_string(file).unwrap();
    let failed = "is not atomic: it wrote from a value that another thread had changed since";
    assert!(tests.contains(failed), "{tests}");
    assert!(tests.contains("failures=\"3\""), "{tests}");
    assert_eq!(
        said.stderr.matches("withdraw` is not atomic").count(),
        1,
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("in 3 processes"), "{}", said.stderr);
}

#[test]
fn benchmarks_with_a_harness_of_their_own() {
    found(&cargo(&shop(), &["bench", "--bench", "speed"]));
}

#[test]
fn regions_are_those_of_the_workspace_and_of_who_is_named() {
    let named = |regions: &[&str]| {
        let said = says(
            atomsan(&shop(), &["cargo", "run", "--json", "--noise"])
                .args(regions)
                .args(["-q", "-p", "app"]),
        );
        let document: serde_json::Value = serde_json::from_str(said.stderr.trim())
            .unwrap_or_else(|error| panic!("{error}: {}", said.stderr));
        let findings = document["findings"].as_array().unwrap();
        let mut named: Vec<String> = findings
            .iter()
            .map(|finding| finding["culprit"]["function"].as_str().unwrap().to_owned())
            .collect();
        named.dedup();
        named.sort();
        named
    };
    assert!(named(&[]).is_empty());
    assert!(named(&["--regions", "workspace"]).is_empty());
    assert_eq!(named(&["--regions", "direct"]), ["near::near_withdraw"]);
    assert_eq!(named(&["--regions", "far"]), ["far::far_withdraw"]);
    assert_eq!(
        named(&["--regions=near,far"]),
        ["far::far_withdraw", "near::near_withdraw"]
    );
    assert_eq!(
        named(&["--regions", "all"]),
        ["far::far_withdraw", "near::near_withdraw"]
    );
    let said = cargo(&shop(), &["run", "--regions", "nea", "-p", "app"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("there is `near`"), "{}", said.stderr);
}

#[test]
fn yields_are_the_places_where_other_threads_matter() {
    let said = cargo(
        &shop(),
        &["yields", "--noise", "--regions", "all", "-q", "-p", "app"],
    );
    assert!(said.stderr.contains("yield at "), "{}", said.stderr);
    assert!(
        said.stderr.contains("interference density"),
        "{}",
        said.stderr
    );
}

#[test]
fn options_for_cargo_are_passed_on() {
    let main = format!(
        "{WITHDRAW} fn main() {{
            println!(\"loud {{}} {{:?}}\", cfg!(feature = \"loud\"), std::env::args().nth(1));
            both()
        }}"
    );
    let project = program(&main, &[]);
    let elsewhere = tempfile::tempdir().unwrap();
    let manifest = project.path().join("Cargo.toml");
    let target = elsewhere.path().join("built");
    let said = says(
        atomsan(
            elsewhere.path(),
            &["cargo", "run", "--noise", "--release", "-F", "loud"],
        )
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .args(["--target", "x86_64-unknown-linux-gnu", "--", "--own"]),
    );
    found(&said);
    assert_eq!(said.stdout, "loud true Some(\"--own\")\n");
    assert!(
        target
            .join("x86_64-unknown-linux-gnu/release/bank")
            .exists()
    );
}

#[test]
fn the_users_settings_hold() {
    let main = format!(
        "#[cfg(not(from_config))] compile_error!(\"the flags are lost\");
        {WITHDRAW} fn main() {{ both() }}"
    );
    let config = "
        [target.x86_64-unknown-linux-gnu]
        rustflags = [\"--cfg=from_config\"]
        linker = \"./my-linker\"
        [build]
        rustc-wrapper = \"./my-wrapper\"
        [profile.release]
        lto = \"fat\"
        strip = true";
    let project = program(&main, &[(".cargo/config.toml", config)]);
    for name in ["my-linker", "my-wrapper"] {
        let real = if name == "my-linker" {
            "cc \"$@\""
        } else {
            "\"$@\""
        };
        let mark = project.path().join(format!("{name}.was-here"));
        let path = project.path().join(name);
        script(&path, &format!("touch '{}'\nexec {real}\n", mark.display()));
        let config = project.path().join(".cargo/config.toml");
        let text = fs::read_to_string(&config).unwrap();
        let text = text.replace(&format!("./{name}"), path.to_str().unwrap());
        fs::write(config, text).unwrap();
    }
    found(&cargo(project.path(), &["run", "--release"]));
    assert!(project.path().join("my-linker.was-here").exists());
    assert!(project.path().join("my-wrapper.was-here").exists());
    // The environment takes the place of the configuration, as without us.
    let said = says(
        atomsan(project.path(), &["cargo", "build"])
            .env("RUSTFLAGS", "--cfg=from_config -Copt-level=1"),
    );
    assert_eq!(said.code, 0, "{}", said.stderr);
}

fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let draft = path.with_extension("draft");
    fs::write(&draft, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    copy_executable(&draft, path);
}

/// A compiler that does not know LLVM's passes, or no sanitizer either.
fn odd_rustc(directory: &Path, refused: &str, answers: &str) -> PathBuf {
    let path = directory.join("odd-rustc");
    let text = format!(
        "case \"$*\" in {answers}\nesac\nfor a in \"$@\"; do case \"$a\" in {refused}) \
         echo \"error: I do not know $a\" >&2; exit 1;; esac; done\nexec rustc \"$@\"\n"
    );
    script(&path, &text);
    path
}

#[test]
fn a_compiler_without_the_passes_is_used_as_a_sanitizer() {
    let project = program(&simple(), &[]);
    let rustc = odd_rustc(project.path(), "-Cpasses=*", "");
    found(&says(
        atomsan(project.path(), &["cargo", "run"]).env("RUSTC", &rustc),
    ));
    let rustc = odd_rustc(project.path(), "-Cpasses=*|-Zsanitizer=*", "");
    // What was found out of a compiler is kept in the target directory.
    let said = says(
        atomsan(project.path(), &["cargo", "run"])
            .env("RUSTC", &rustc)
            .env("CARGO_TARGET_DIR", project.path().join("other")),
    );
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(
        said.stderr.contains("cannot be made to instrument code"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("I do not know -Zsanitizer=thread"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_compiler_that_dies_is_asked_for_less() {
    let project = program(&simple(), &[]);
    let dies = "*crate-name=probe*) ;; *scalarizer*) kill -ILL $$;;";
    let rustc = odd_rustc(project.path(), "-nothing", dies);
    let said = says(atomsan(project.path(), &["cargo", "run"]).env("RUSTC", &rustc));
    let again = "accesses to such vectors there are not seen";
    assert!(said.stderr.contains(again), "{}", said.stderr);
    found(&said);
}

#[test]
fn a_standard_library_that_is_not_known_is_said_and_it_goes_on() {
    let project = program(&simple(), &[]);
    let std = project.path().join("std");
    fs::create_dir(&std).unwrap();
    let object = project.path().join("empty.o");
    let archive = std.join("libstd-0.rlib");
    write(project.path(), &[("empty.c", "int nothing;")]);
    let made = Command::new("gcc")
        .args(["-c", "empty.c", "-o"])
        .arg(&object)
        .current_dir(project.path())
        .status();
    assert!(made.unwrap().success());
    let made = Command::new("ar")
        .arg("rc")
        .arg(archive)
        .arg(&object)
        .status();
    assert!(made.unwrap().success());
    let answer = format!("*target-libdir*) echo '{}'; exit 0;;", std.display());
    let rustc = odd_rustc(project.path(), "-nothing", &answer);
    for _ in 0..2 {
        let said = says(atomsan(project.path(), &["cargo", "run"]).env("RUSTC", &rustc));
        assert!([0, 66].contains(&said.code), "{}", said.stderr);
        let missed = "warning: a `Mutex::lock` that has to wait is not seen";
        assert!(said.stderr.contains(missed), "{}", said.stderr);
        assert!(said.stderr.contains("atomsan: "), "{}", said.stderr);
    }
}

#[test]
fn the_nightly_toolchain_too() {
    if !there(Command::new("rustc").arg("+nightly").arg("-V")) {
        return;
    }
    // Their names of generic functions are not the same, but a mistake is written once, and has one name.
    let program = program(GENERIC, &[]);
    for toolchain in ["nightly", "stable"] {
        let mut run = atomsan(program.path(), &["cargo", "run"]);
        run.env("RUSTUP_TOOLCHAIN", toolchain)
            .env("RUSTC_BOOTSTRAP", "1");
        let said = says(&mut run);
        found(&said);
        let name = "`bank::Account::withdraw` is not atomic";
        assert_eq!(said.stderr.matches(name).count(), 1, "{}", said.stderr);
    }
}

/// A generic function of a generic type that is not atomic, twice.
const GENERIC: &str = "
    use std::sync::Mutex;

    struct Account<T>(Mutex<T>);

    impl<T: Copy> Account<T> {
        fn withdraw<F: Fn(T) -> T>(&self, take: F) {
            let seen = *self.0.lock().unwrap();
            *self.0.lock().unwrap() = take(seen);
        }
    }

    fn main() {
        let (small, large) = (Account(Mutex::new(9_000u16)), Account(Mutex::new(9_000u64)));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        small.withdraw(|seen| seen - 1);
                        large.withdraw(|seen| seen - 1);
                    }
                });
            }
        });
    }
";

#[test]
fn show_env_makes_a_plain_cargo_instrument() {
    let project = program(&simple(), &[]);
    let shell = "eval \"$(\"$ATOMSAN\" cargo show-env)\" && cargo build -q && \
                 exec \"$ATOMSAN\" run target/atomsan/x86_64-unknown-linux-gnu/debug/bank";
    let mut bash = Command::new("sh");
    bash.args(["-c", shell])
        .current_dir(project.path())
        .env("ATOMSAN", env!("CARGO_BIN_EXE_atomsan"))
        .env_remove("LD_LIBRARY_PATH");
    found(&says(&mut bash));
    assert!(project.path().join("target/atomsan").exists());
    let said = cargo(project.path(), &["clean"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!project.path().join("target/atomsan").exists());
    let said = cargo(project.path(), &["setup"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(project.path().join("target/atomsan").exists());
}

/// Who waits for a message comes after who has sent it, and not after what that one does by then: a region
/// that gets memory which the waiting thread gives back is in no cycle.
#[test]
fn a_message_comes_after_its_sender_and_after_nobody_else() {
    let main = "struct Tree(Option<Box<(Tree, Tree)>>);
        fn build(depth: usize) -> Tree {
            Tree((depth > 0).then(|| Box::new((build(depth - 1), build(depth - 1)))))
        }
        fn main() {
            let (send, receive) = std::sync::mpsc::channel::<Vec<String>>();
            let thread = std::thread::spawn(move || {
                for round in 0..200 {
                    build(8);
                    send.send((0..20).map(|word| format!(\"{round}-{word}\")).collect()).unwrap();
                }
            });
            let letters: usize = receive.iter().flatten().map(|word| word.len()).sum();
            thread.join().unwrap();
            assert!(letters > 0);
        }";
    let directory = program(main, &[]);
    for _ in 0..3 {
        let said = cargo(directory.path(), &["run", "--first-run", "first"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let found = fs::read_to_string(directory.path().join("first")).unwrap();
        assert!(!found.contains("region"), "{found}");
    }
}

#[test]
fn what_cannot_be_done_is_said_at_once() {
    let project = program("fn main() {}", &[]);
    let said = cargo(project.path(), &["yields", "--release", "--memory", "1M"]);
    let late = "--memory is an option of ours: it comes right behind the command";
    assert!(
        said.code == 2 && said.stderr.contains(late),
        "{}",
        said.stderr
    );
    let said = cargo(
        project.path(),
        &["run", "--target", "x86_64-unknown-linux-musl"],
    );
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("on x86_64-unknown-linux-gnu only"),
        "{}",
        said.stderr
    );
    assert!(!project.path().join("target").exists());
    let said = cargo(project.path(), &["tset"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("'test'"), "{}", said.stderr);
    let said = cargo(Path::new("/"), &["test"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("Cargo.toml"), "{}", said.stderr);
    for subcommand in ["test", "run", "nextest", "bench", "build", "show-env"] {
        let said = cargo(project.path(), &[subcommand, "--help"]);
        assert_eq!(said.code, 0);
        let example = format!("cargo atomsan {subcommand}");
        assert!(said.stdout.matches(&example).count() > 1, "{}", said.stdout);
    }
}
