//! The runtime, as a file that programs can load.
//!
//! It is part of this executable and is unpacked when it is needed, into a directory named after
//! its content, so that versions never mix and programs that were linked with it keep working.
//!
//! | file | for |
//! |---|---|
//! | `libatomsan_rt.so` | programs that were linked by `atomsan cc` or `cargo atomsan` |
//! | `libtsan.so` | the linker, when gcc asks for ThreadSanitizer's |
//! | `libtsan.so.0`, `.2` | programs that gcc linked with `-fsanitize=thread` |
//! | `libclang_rt.tsan*.so` | programs that clang linked with `-fsanitize=thread -shared-libsan` |
//! | `checker` | this executable: the runtime starts it at the end of a program that nobody watches |
//! | `atomsan-linker-cc` | this executable, as rustc's linker (see [`linker`]) |
//! | `atomsan-rustc`, `atomsan-rustdoc` | this executable, between cargo and these (see [`rustc`]) |
//! | `atomsan-cc`, `atomsan-c++` | this executable, as a compiler, for builds that want one word (see [`crate::cc`]) |
//! | `include/atomsan.h` | C and C++ programs that have something to say to the checker |

use crate::{cc, linker, rustc};
use anyhow::{Context as _, bail};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libatomsan_rt.so"));
/// A number that tells it from others.
const HASH: &str = env!("ATOMSAN_RT_HASH");

/// The only platform that programs are checked on.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

const HEADER: &str = include_str!("../../../include/atomsan.h");

/// The directory of headers, in the runtime's.
pub(crate) const INCLUDE: &str = "include";

/// The library's name for the linker.
pub(crate) const NAME: &str = "libatomsan_rt.so";

/// The directory with the runtime, unpacked if it is not there yet.
pub(crate) fn directory() -> anyhow::Result<PathBuf> {
    if LIBRARY.is_empty() {
        bail!(
            "programs can be checked on x86-64 Linux with glibc only; `atomsan check` and its \
             relatives work here"
        );
    }
    let mut hasher = DefaultHasher::new();
    (HASH, HEADER).hash(&mut hasher);
    let executable = std::env::current_exe().context("cannot find this executable")?;
    // Another version of this executable may have other names for itself.
    links(&executable).hash(&mut hasher);
    let directory = cache()?.join(format!("{:016x}", hasher.finish()));
    if !directory.join(LAST).exists() {
        unpack(&directory, &executable)
            .with_context(|| format!("cannot unpack the runtime into {}", directory.display()))?;
    }
    Ok(directory)
}

/// The file that is unpacked last.
const LAST: &str = cc::CPP_NAME;

/// A directory for what is kept between runs.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(base) => PathBuf::from(base),
        None => std::env::home_dir()
            .context("there is no home directory to unpack the runtime into; set XDG_CACHE_HOME")?
            .join(".cache"),
    };
    Ok(base.join("atomsan"))
}

/// Names in the directory, and what they stand for.
fn links(executable: &Path) -> [(&'static str, &Path); 11] {
    [
        ("libtsan.so", Path::new(NAME)),
        ("libtsan.so.0", Path::new(NAME)),
        ("libtsan.so.2", Path::new(NAME)),
        ("libclang_rt.tsan.so", Path::new(NAME)),
        ("libclang_rt.tsan-x86_64.so", Path::new(NAME)),
        (linker::NAME, executable),
        (rustc::NAME, executable),
        (rustc::DOC_NAME, executable),
        (cc::NAME, executable),
        ("checker", executable),
        (LAST, executable),
    ]
}

/// Several processes may do this at once, so each file comes into place as a whole.
fn unpack(directory: &Path, executable: &Path) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    let temporary = directory.join(format!("new.{}", std::process::id()));
    fs::write(&temporary, LIBRARY)?;
    fs::rename(&temporary, directory.join(NAME))?;
    fs::create_dir_all(directory.join(INCLUDE))?;
    fs::write(&temporary, HEADER)?;
    fs::rename(&temporary, directory.join(INCLUDE).join("atomsan.h"))?;
    for (name, target) in links(executable) {
        let _ = fs::remove_file(&temporary);
        symlink(target, &temporary)?;
        fs::rename(&temporary, directory.join(name))?;
    }
    Ok(())
}
