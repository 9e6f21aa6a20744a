//! Building the programs: natively, instrumented for us, and with ThreadSanitizer.
//!
//! Everything is built below one directory of the target directory and kept there. The
//! instrumented programs find a runtime by `LD_LIBRARY_PATH`, so they are the same files for the
//! empty runtime and for every version of ours.

use super::programs::{Debian, Program, Source};
use crate::Result;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a program is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Build {
    /// As it is.
    Native,
    /// By `atomsan cc`, `atomsan c++` and `cargo atomsan`.
    Instrumented,
    /// With the compiler's own ThreadSanitizer.
    Tsan,
}

impl Build {
    /// All of them.
    pub(crate) const ALL: [Build; 3] = [Build::Native, Build::Instrumented, Build::Tsan];

    fn name(self) -> &'static str {
        match self {
            Build::Native => "native",
            Build::Instrumented => "instrumented",
            Build::Tsan => "tsan",
        }
    }
}

/// The directories and tools of a benchmark.
pub(crate) struct Workshop {
    /// Where everything is built and run.
    pub(crate) directory: PathBuf,
    executable: PathBuf,
    sources: PathBuf,
}

impl Workshop {
    /// Builds the command line and the tools.
    pub(crate) fn open() -> Result<Workshop> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .ok_or("no workspace")?;
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => std::path::absolute(target)?,
            None => root.join("target"),
        };
        let directory = target.join("bench-runtime");
        eprintln!("building atomsan");
        run(cargo()
            .current_dir(root)
            .args(["build", "--release", "--bin", "atomsan"]))?;
        // A cache of its own, in which there is one runtime: the one that was just built.
        let cache = directory.join("cache");
        if cache.exists() {
            std::fs::remove_dir_all(&cache)?;
        }
        for folder in ["cache", "empty", "debian", "programs"] {
            std::fs::create_dir_all(directory.join(folder))?;
        }
        let workshop = Workshop {
            directory,
            executable: target.join("release/atomsan"),
            sources: root.join("benches/programs"),
        };
        run(Command::new("cc")
            .args(["-O2", "-Wall", "-o"])
            .arg(workshop.launcher())
            .arg(workshop.sources.join("c/launch.c")))?;
        run(Command::new("cc")
            .args(["-O2", "-Wall", "-shared", "-fPIC"])
            .args(["-Wl,-soname,libatomsan_rt.so", "-o"])
            .arg(workshop.empty_runtime().join("libatomsan_rt.so"))
            .arg(workshop.sources.join("c/empty.c")))?;
        Ok(workshop)
    }

    /// The program that runs a program and writes down what it took.
    pub(crate) fn launcher(&self) -> PathBuf {
        self.directory.join("launch")
    }

    /// The command line.
    pub(crate) fn atomsan(&self) -> &Path {
        &self.executable
    }

    /// Where the command line unpacks the runtime.
    pub(crate) fn cache(&self) -> PathBuf {
        self.directory.join("cache")
    }

    /// The directory of the runtime that does nothing.
    pub(crate) fn empty_runtime(&self) -> PathBuf {
        self.directory.join("empty")
    }

    /// The directory of ours.
    pub(crate) fn runtime(&self) -> Result<PathBuf> {
        let folder = self.directory.join("cache/atomsan");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if let Ok(runtime) = path.join("libatomsan_rt.so").metadata() {
                found.push((runtime.modified()?, path));
            }
        }
        // Each build has unpacked its own.
        let newest = found.into_iter().max();
        Ok(newest.ok_or("the runtime was not unpacked")?.1)
    }

    /// Where a program is when it has been built.
    pub(crate) fn executable(&self, program: &Program, build: Build) -> PathBuf {
        let folder = match (program.source, build) {
            (Source::Rust, Build::Native) => "rust/release",
            (Source::Rust, Build::Instrumented) => "rust/atomsan/x86_64-unknown-linux-gnu/release",
            (Source::Rust, Build::Tsan) => "rust/tsan/x86_64-unknown-linux-gnu/release",
            (Source::C | Source::Debian(_), build) => {
                return self.directory.join("programs").join(format!(
                    "{}-{}",
                    program.name,
                    build.name()
                ));
            }
        };
        self.directory.join(folder).join(program.name)
    }

    /// The arguments of a program.
    pub(crate) fn arguments(&self, program: &Program, quick: bool) -> Vec<OsString> {
        let arguments = if quick {
            program.quick
        } else {
            program.arguments
        };
        let mut all: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        if let Source::Debian(debian) = program.source {
            all.push(self.input(debian).into());
        }
        all
    }

    fn input(&self, debian: &Debian) -> PathBuf {
        self.directory.join(format!("text-{}", debian.input))
    }

    /// Builds a program of ours for us; where it is then.
    pub(crate) fn build_for_us(&self, name: &str) -> Result<PathBuf> {
        let executable = self.directory.join("programs").join(name);
        run(self
            .compiler(Build::Instrumented, false)
            .arg(self.sources.join(format!("c/{name}.c")))
            .args(["-pthread", "-o"])
            .arg(&executable))?;
        Ok(executable)
    }

    /// Builds a program in all ways.
    pub(crate) fn build(&self, program: &Program) -> Result<()> {
        if let Source::Debian(debian) = program.source {
            self.fetch(debian)?;
            std::fs::write(self.input(debian), text(debian.input))?;
        }
        for build in Build::ALL {
            eprintln!("building {} ({})", program.name, build.name());
            match program.source {
                Source::Rust => self.build_rust(program, build)?,
                Source::C => {
                    let file = format!("c/{}.c", program.name);
                    run(self
                        .compiler(build, false)
                        .arg(self.sources.join(file))
                        .args(["-pthread", "-o"])
                        .arg(self.executable(program, build)))?;
                }
                Source::Debian(debian) => self.build_debian(program, debian, build)?,
            }
        }
        Ok(())
    }

    fn build_rust(&self, program: &Program, build: Build) -> Result<()> {
        let target = self.directory.join("rust");
        let mut command = match build {
            Build::Native | Build::Tsan => cargo(),
            Build::Instrumented => self.command(&["cargo"]),
        };
        command
            .args(["build", "--release", "--bin", program.name])
            .current_dir(&self.sources);
        match build {
            Build::Native | Build::Instrumented => command.env("CARGO_TARGET_DIR", target),
            Build::Tsan => command
                .args(["--target", "x86_64-unknown-linux-gnu"])
                .env("CARGO_TARGET_DIR", target.join("tsan"))
                .env("RUSTC_BOOTSTRAP", "1")
                .env(
                    "RUSTFLAGS",
                    "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
                ),
        };
        run(&mut command)
    }

    /// The compiler, with its flags.
    fn compiler(&self, build: Build, cpp: bool) -> Command {
        let mut command = match build {
            Build::Native | Build::Tsan => Command::new(if cpp { "c++" } else { "cc" }),
            Build::Instrumented => self.command(&[if cpp { "c++" } else { "cc" }]),
        };
        command.args(["-O2", "-g1"]);
        if build == Build::Tsan {
            command.arg("-fsanitize=thread");
        }
        command
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(words).env("XDG_CACHE_HOME", self.cache());
        command
    }

    /// Object files of several sources; kept, because compiling them takes long. The executable knows where the runtime is, which may
    /// be elsewhere the next time.
    fn build_debian(&self, program: &Program, debian: &Debian, build: Build) -> Result<()> {
        let executable = self.executable(program, build);
        let objects =
            self.directory
                .join("debian")
                .join(format!("{}-{}", program.name, build.name()));
        std::fs::create_dir_all(&objects)?;
        let mut linked = Vec::new();
        for (cpp, paths) in [(false, debian.c), (true, debian.cpp)] {
            let files = self.files(paths, if cpp { "cpp" } else { "c" })?;
            let includes = files
                .iter()
                .filter_map(|file| Some(format!("-I{}", file.parent()?.display())));
            let mut includes: Vec<String> = includes.collect();
            // C++ may include what C declares.
            if cpp {
                let c = self.files(debian.c, "c")?;
                includes.extend(
                    c.iter()
                        .filter_map(|file| Some(format!("-I{}", file.parent()?.display()))),
                );
            }
            includes.dedup();
            for (number, file) in files.iter().enumerate() {
                let object = objects.join(format!("{number}-{}.o", if cpp { "cpp" } else { "c" }));
                if !object.exists() {
                    let new = object.with_extension("new");
                    run(self
                        .compiler(build, cpp)
                        .arg("-w")
                        .args(debian.flags)
                        .args(&includes)
                        .arg("-c")
                        .arg(file)
                        .arg("-o")
                        .arg(&new))?;
                    std::fs::rename(&new, &object)?;
                }
                linked.push(object);
            }
        }
        run(self
            .compiler(build, !debian.cpp.is_empty())
            .args(linked)
            .args(["-pthread", "-o"])
            .arg(executable))
    }

    /// The source files that a list names.
    fn files(&self, paths: &[&str], extension: &str) -> Result<Vec<PathBuf>> {
        let base = self.directory.join("debian/sources");
        let mut files = Vec::new();
        for path in paths {
            let (package, rest) = path.split_once("*/").ok_or("a path without a package")?;
            let unpacked = std::fs::read_dir(&base)?
                .filter_map(|entry| Some(entry.ok()?.path()))
                .find(|path| path.is_dir() && is_unpacked(path, package))
                .ok_or_else(|| format!("the sources of {package} were not unpacked"))?;
            let path = unpacked.join(rest);
            if path.is_dir() {
                let entries =
                    std::fs::read_dir(&path)?.filter_map(|entry| Some(entry.ok()?.path()));
                files.extend(
                    entries.filter(|path| path.extension().is_some_and(|e| e == extension)),
                );
            } else {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Gets source packages from Debian, with an apt of its own, which needs no rights.
    fn fetch(&self, debian: &Debian) -> Result<()> {
        let base = self.directory.join("debian/sources");
        std::fs::create_dir_all(base.join("lists/partial"))?;
        let list = base.join("sources.list");
        let apt = |arguments: &[&str]| {
            let mut command = Command::new("apt-get");
            command.current_dir(&base);
            for (option, value) in [
                ("Dir::Etc::SourceList", list.as_path()),
                ("Dir::Etc::SourceParts", Path::new("/dev/null")),
                ("Dir::State::lists", &base.join("lists")),
                ("Dir::Cache", &base.join("cache")),
                ("APT::Sandbox::User", Path::new("")),
            ] {
                command
                    .arg("-o")
                    .arg(format!("{option}={}", value.display()));
            }
            command.arg("-qq").args(arguments);
            command
        };
        for package in debian.packages {
            let have = std::fs::read_dir(&base)?
                .filter_map(|entry| Some(entry.ok()?.path()))
                .any(|path| path.is_dir() && is_unpacked(&path, package));
            if have {
                continue;
            }
            eprintln!("fetching the sources of {package} from Debian");
            if !list.exists() {
                std::fs::write(
                    &list,
                    "deb-src http://deb.debian.org/debian bookworm main\n",
                )?;
                run(&mut apt(&["update"]))?;
            }
            run(&mut apt(&["source", package]))?;
        }
        Ok(())
    }
}

/// Whether a directory is a source package, unpacked.
fn is_unpacked(path: &Path, package: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(package)
        .is_some_and(|rest| rest.starts_with('-'))
}

/// Text that compresses like text: words of a fixed vocabulary, the short ones more often.
fn text(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize
    };
    let words: Vec<Vec<u8>> = (0..4096)
        .map(|word| {
            let letters = 2 + word / 512;
            (0..letters).map(|_| b'a' + (next() % 26) as u8).collect()
        })
        .collect();
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        let most = 1 << (next() % 12 + 1);
        text.extend_from_slice(&words[next() % most]);
        text.push(if next() % 12 == 0 { b'\n' } else { b' ' });
    }
    text.truncate(bytes);
    text
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a tool quietly; what it said is the error if it fails.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed ({}):\n{}", output.status, said.trim_end()).into())
}
