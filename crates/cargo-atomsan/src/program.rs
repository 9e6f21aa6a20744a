//! What an executable file is to us, before it is run.

use object::{Object as _, ObjectSymbol as _, ReadCache, ReadRef};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What can be expected of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    /// It loads the runtime, under any of its names.
    Instrumented,
    /// It has a runtime of ThreadSanitizer in itself.
    OwnRuntime,
    /// Nothing in it is instrumented, and no library can be put in front of it.
    Static,
    /// Nothing in it is instrumented.
    Plain,
    /// It is no executable of this platform: a script, or something that cannot be read.
    Unknown,
}

/// Looks at a program, as the shell would find it.
pub(crate) fn look_at(name: &OsStr) -> Program {
    find(name)
        .and_then(|path| std::fs::File::open(path).ok())
        .map_or(Program::Unknown, |file| Program::of(&ReadCache::new(file)))
}

/// The instrumented program among the words of a command: the command itself, or what it is going to run as `env`, `nice`
/// and `timeout` do.
pub(crate) fn instrumented(command: &Command) -> Option<PathBuf> {
    let itself = find(command.get_program()).into_iter();
    let named = command.get_args().map(Path::new);
    let named = named.filter(|word| word.components().count() > 1 && word.is_file());
    let mut programs = itself.chain(named.map(Path::to_owned));
    let program = programs.find(|path| look_at(path.as_os_str()) == Program::Instrumented)?;
    program.canonicalize().ok()
}

fn find(name: &OsStr) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 {
        return Some(path.to_owned());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

impl Program {
    fn of<'a>(data: impl ReadRef<'a>) -> Program {
        const HOOK: &str = "__tsan_func_entry";
        let Ok(file) = object::File::parse(data) else {
            return Program::Unknown;
        };
        let hook = file
            .dynamic_symbols()
            .chain(file.symbols())
            .find(|symbol| symbol.name() == Ok(HOOK));
        match hook {
            Some(hook) if hook.is_definition() => Program::OwnRuntime,
            Some(_) => Program::Instrumented,
            None if file.dynamic_symbols().next().is_none() => Program::Static,
            None => Program::Plain,
        }
    }

    /// Why nothing was seen of it.
    pub(crate) fn why(self, name: &OsStr) -> String {
        let name = name.display();
        match self {
            Program::Static => format!(
                "{name} is not instrumented, and linked statically; build it with `atomsan cc` or \
                 `cargo atomsan build`, dynamically linked"
            ),
            Program::Unknown => format!(
                "{name} has run no instrumented program; build what it runs with `atomsan cc` or \
                 `cargo atomsan build`"
            ),
            Program::Plain => format!(
                "{name} is not instrumented; build it with `atomsan cc` or `cargo atomsan build`, \
                 or by gcc with -fsanitize=thread"
            ),
            Program::Instrumented | Program::OwnRuntime => {
                format!(
                    "{name} is instrumented, but its runtime has not recorded anything: it was not \
                     started, or had no room for it (see `ulimit -v`, `ulimit -f` and the space \
                     in {})",
                    std::env::temp_dir().display()
                )
            }
        }
    }
}
