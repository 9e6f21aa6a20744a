//! `atomsan cc` and `c++` as builds use them, with every compiler of the machine; `atomsan run` on
//! what others have built.

use crate::support::{Said, command, copy_executable, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The compilers that are there; in CI, all of them.
pub(crate) fn compilers() -> Vec<[&'static str; 2]> {
    let all = [
        ["gcc", "g++"],
        ["clang-14", "clang++-14"],
        ["clang-19", "clang++-19"],
    ];
    let there = |name: &[&str; 2]| {
        let there = Command::new(name[1]).arg("--version").output().is_ok();
        assert!(
            there || std::env::var_os("CI").is_none(),
            "CI must have {}",
            name[0]
        );
        there
    };
    all.into_iter().filter(there).collect()
}

fn wrong() -> PathBuf {
    root()
        .canonicalize()
        .unwrap()
        .join("tests/programs/c/withdraw-wrong.c")
}

/// A build of two sources: a part with the mistake, and a program.
fn sources(more: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(wrong()).unwrap();
    let text = text.replace("int main(void)", "int both(void)");
    let files = [
        ("part.c", text.as_str()),
        (
            "main.c",
            "int both(void);\nint main(void) { return both(); }\n",
        ),
    ];
    for (path, text) in files.iter().chain(more) {
        fs::write(directory.path().join(path), text).unwrap();
    }
    directory
}

fn says(command: &mut Command) -> Said {
    command.output().unwrap().into()
}

fn sh(directory: &Path, compiler: &str, script: &str) -> Said {
    let mut sh = Command::new("sh");
    sh.args(["-ec", script])
        .current_dir(directory)
        .env("ATOMSAN", env!("CARGO_BIN_EXE_atomsan"))
        .env("ATOMSAN_CC", compiler)
        .env("ATOMSAN_NOISE", "16")
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS");
    says(&mut sh)
}

#[track_caller]
fn found(said: &Said) {
    assert_eq!(said.code, 66, "{}\n{}", said.stdout, said.stderr);
    assert!(
        said.stderr.contains("`withdraw` is not atomic"),
        "{}",
        said.stderr
    );
}

#[test]
fn make() {
    let makefile = "prog: main.o part.o\n\t$(CC) $(CFLAGS) -o $@ $^\n";
    let project = sources(&[("Makefile", makefile)]);
    for [compiler, _] in compilers() {
        let script = "make -s clean >&2 || rm -f prog *.o; make -s CC=\"$ATOMSAN cc\" CFLAGS='-O2 -Wall -Werror'; exec ./prog";
        found(&sh(project.path(), compiler, script));
    }
    // The compiler is the user's own `CC`, and the wrapper does not call itself.
    let script = "rm -f prog *.o; unset ATOMSAN_CC; make -s CC=\"$ATOMSAN cc\"; exec ./prog";
    found(&sh(project.path(), "", script));
}

#[test]
fn cmake() {
    if Command::new("cmake").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI must have cmake");
        return eprintln!("skipped: there is no cmake");
    }
    let lists = "cmake_minimum_required(VERSION 3.10)\nproject(prog C)\n\
        add_library(part SHARED part.c)\nadd_executable(prog main.c)\n\
        find_package(Threads REQUIRED)\ntarget_link_libraries(prog part Threads::Threads)\n";
    let project = sources(&[("CMakeLists.txt", lists)]);
    let script = "CC=\"$ATOMSAN cc\" cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo >&2; \
        cmake --build build >&2; exec ./build/prog";
    for [compiler, _] in compilers().into_iter().take(1) {
        found(&sh(project.path(), compiler, script));
    }
}

/// What scripts made by autoconf ask of a compiler.
#[test]
fn configure() {
    let script = r#"
        CC="$ATOMSAN cc"
        $CC --version >/dev/null; $CC -v 2>/dev/null; ! $CC -qversion 2>/dev/null
        echo 'int main(void) { return 0; }' > conftest.c
        $CC conftest.c 2>conftest.err; test -f a.out; ./a.out 2>/dev/null
        $CC -o conftest conftest.c; $CC -c conftest.c; test -f conftest.o
        echo '#ifdef __STDC__' > cpp.c; echo ok >> cpp.c; echo '#endif' >> cpp.c
        $CC -E cpp.c | grep -q ok
        ! $CC -E no-such-file.c 2>/dev/null
        $CC -M conftest.c | grep -q conftest.o
        echo 'int main(void) { return nothing(); }' > conftest.c
        ! $CC -o conftest conftest.c 2>/dev/null
        $CC -O2 -g -c part.c main.c; ar rc libpart.a part.o; $CC -o prog main.o -L. -lpart
        exec ./prog
    "#;
    for [compiler, _] in compilers() {
        found(&sh(sources(&[]).path(), compiler, script));
    }
}

#[test]
fn unusual_arguments() {
    let script = r#"
        CC="$ATOMSAN cc"
        printf -- '-O1 -Wall -Werror\n"main.c" part.c -o '"'prog'" > arguments; $CC @arguments; test -f prog
        $CC -Werror -c main.c part.c; $CC -Werror main.o part.o -o linked; test -f linked
        cat part.c main.c | $CC -x c - -o stdin; test -f stdin
        echo 'int both(void);' > header.h; $CC -x c-header header.h -o header.h.gch
        $CC -Werror -Winvalid-pch -include header.h main.c part.c -o with-header
        $CC -shared -fPIC part.c -o libpart.so; $CC main.c -L. -lpart -Wl,-rpath,. -o shared
        $CC -fsanitize=thread -s main.c part.c -o sanitized
        $CC '-###' main.c 2>&1 | grep -q main.c
        ! $CC -o nothing 2>/dev/null
        for prog in prog linked stdin with-header shared; do
            status=0; ./$prog 2>said || status=$?
            test $status = 66; grep -q 'withdraw. is not atomic' said
        done
        exec ./sanitized
    "#;
    for [compiler, _] in compilers() {
        found(&sh(sources(&[]).path(), compiler, script));
    }
}

#[test]
fn what_cannot_be_checked_is_said() {
    let directory = tempfile::tempdir().unwrap();
    for (option, why) in [
        ("-static", "link it dynamically"),
        ("-fsanitize=address", "cannot be combined"),
        ("-m32", "x86-64 Linux with glibc only"),
    ] {
        let arguments = ["cc", option, "-o", "prog"];
        let said = says(
            command()
                .args(arguments)
                .arg(wrong())
                .current_dir(&directory),
        );
        assert_eq!(said.code, 1);
        assert!(said.stderr.contains(why), "{}", said.stderr);
    }
}

#[test]
fn programs_that_others_have_built() {
    let directory = tempfile::tempdir().unwrap();
    let build = |compiler: &str, options: &[&str]| {
        let program = directory.path().join("program");
        let mut command_line = Command::new(compiler);
        command_line.args(options).arg("-g").arg(wrong());
        let built = command_line.arg("-o").arg(&program).status().unwrap();
        assert!(built.success());
        says(command().args(["run", "--noise"]).arg(program))
    };
    let said = build("gcc", &[]);
    assert_eq!(said.code, 0);
    assert!(
        said.stderr.contains("nothing was seen: "),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("is not instrumented; build it"),
        "{}",
        said.stderr
    );
    let said = build("gcc", &["-static"]);
    assert!(said.stderr.contains("linked statically"), "{}", said.stderr);
    for [compiler, _] in compilers().into_iter().filter(|one| one[0] != "gcc") {
        let runtime = Command::new(compiler)
            .args([
                "-fsanitize=thread",
                "-print-file-name=libclang_rt.tsan-x86_64.so",
            ])
            .output()
            .unwrap();
        let runtime = String::from_utf8(runtime.stdout).unwrap();
        let lib = Command::new(compiler)
            .arg("-print-resource-dir")
            .output()
            .unwrap();
        let lib = PathBuf::from(String::from_utf8(lib.stdout).unwrap().trim()).join("lib/linux");
        if !Path::new(runtime.trim()).exists() && !lib.join("libclang_rt.tsan-x86_64.so").exists() {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must have {compiler}'s runtime"
            );
            eprintln!("skipped: {compiler} has no runtime here");
            continue;
        }
        let said = build(compiler, &["-fsanitize=thread"]);
        assert_eq!(said.code, 1);
        assert!(
            said.stderr.contains("brings ThreadSanitizer's own runtime"),
            "{}",
            said.stderr
        );
        found(&build(compiler, &["-fsanitize=thread", "-shared-libsan"]));
    }
}

/// The directories where recordings would be left.
fn left_behind(directory: &Path) -> usize {
    fs::read_dir(directory)
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("atomsan-")
        })
        .count()
}

fn send(signal: &str, to: &str) {
    let sent = Command::new("kill").args([signal, "--", to]).status();
    assert!(sent.unwrap().success());
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it does not happen"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn signals_are_the_programs() {
    use std::os::unix::process::CommandExt as _;
    let directory = tempfile::tempdir().unwrap();
    // It says when it is ready, and waits.
    let text = fs::read_to_string(wrong()).unwrap().replace(
        "    return 0;\n",
        "    if (argc > 1) signal(SIGINT, SIG_IGN);\n    \
         fclose(fopen(argv[0][0] ? \"ready\" : \"\", \"w\"));\n    for (;;) pause();\n",
    );
    let text = text.replace("int main(void)", "int main(int argc, char **argv)");
    let source = directory.path().join("program.c");
    let head = "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n";
    fs::write(&source, format!("{head}{text}")).unwrap();
    let program = directory.path().join("program");
    let built = says(
        command()
            .args(["cc", "-O1"])
            .arg(&source)
            .arg("-o")
            .arg(&program),
    );
    assert_eq!(built.code, 0, "{}", built.stderr);
    let ready = directory.path().join("ready");
    let start = |arguments: &[&str]| {
        let _ = fs::remove_file(&ready);
        let child = command()
            .args(["run", "--noise"])
            .arg(&program)
            .args(arguments)
            .current_dir(directory.path())
            .env("TMPDIR", directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        wait_for(|| ready.exists());
        child
    };
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        // To all, as the terminal does; and to us alone, as a service manager does.
        let child = start(&[]);
        let to = match signal {
            "-INT" => format!("-{}", child.id()),
            _ => child.id().to_string(),
        };
        send(signal, &to);
        let said = Said::from(child.wait_with_output().unwrap());
        assert_eq!(said.code, status, "{}", said.stderr);
        assert!(
            said.stderr.contains("`withdraw` is not atomic"),
            "{}",
            said.stderr
        );
        assert_eq!(left_behind(directory.path()), 0);
    }
    // A program that does not want to end: the second time, we do.
    let mut child = start(&["stubborn"]);
    assert_eq!(left_behind(directory.path()), 1);
    send("-INT", &format!("-{}", child.id()));
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none());
    send("-INT", &format!("-{}", child.id()));
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    send("-KILL", &format!("-{}", child.id()));
    assert_eq!(left_behind(directory.path()), 0);
}

/// `cargo install` is enough: nothing of the checkout is needed afterwards.
#[test]
fn the_executable_alone_is_enough() {
    let directory = tempfile::tempdir().unwrap();
    let atomsan = directory.path().join("atomsan");
    copy_executable(Path::new(env!("CARGO_BIN_EXE_atomsan")), &atomsan);
    let project = sources(&[]);
    let script = format!(
        "unset ATOMSAN_CC; {} cc main.c part.c -o prog && exec ./prog",
        atomsan.display()
    );
    let mut sh = Command::new("sh");
    sh.args(["-ec", &script])
        .current_dir(project.path())
        .env("XDG_CACHE_HOME", directory.path().join("cache"))
        .env("ATOMSAN_NOISE", "16")
        .env_remove("LD_LIBRARY_PATH");
    found(&says(&mut sh));
}
