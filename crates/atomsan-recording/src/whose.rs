//! Whose a function is, by the file it is written in: only the user's functions are regions.

use crate::models;
use crate::own_models::Models;
use crate::symbols::Frame;
use std::path::{Path, PathBuf};

/// Whose functions are regions.
///
/// A file belongs to the directory that is nearest above it, so a package inside of another one
/// (a vendored dependency, a member of a workspace) is told apart from it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directories of the user's sources; if there are none, everything is the user's that is
    /// not the toolchain's, the system's or a package's.
    pub roots: Vec<PathBuf>,
    /// Directories of the sources of others.
    pub others: Vec<PathBuf>,
    /// Functions that are synchronisation, besides those that are known.
    pub models: Models,
}

/// Where compilers and systems keep what they bring along. Of the programs that are instrumented,
/// these are the headers and the generic code; libraries of the system are not instrumented.
const SYSTEM: [&str; 5] = [
    "/usr/include/",
    "/usr/local/include/",
    "/usr/lib/",
    "/usr/local/lib/",
    "/nix/store/",
];

/// Where cargo and rustup keep what they bring along, below the user's home or wherever; and the
/// crate of our own annotations.
const PACKAGES: [&str; 4] = [
    "/.cargo/registry/",
    "/.cargo/git/",
    "/.rustup/",
    "/crates/atomsan/src/",
];

impl Options {
    /// Every function that is instrumented.
    pub fn everything() -> Options {
        Options {
            roots: vec!["/".into()],
            ..Options::default()
        }
    }

    /// Whether a function is the user's.
    pub(crate) fn is_users(&self, frame: &Frame) -> bool {
        let root = |directory: &PathBuf| directory == Path::new("/");
        // Who asks for everything does not ask for the inside of locks and channels, and nobody
        // for our own annotations.
        let inside = frame.function.starts_with("atomsan::")
            || self.models.has(&frame.function)
            || self.roots.iter().any(root) && models::family(&frame.function).is_some();
        self.is_in_users_file(&frame.file) && !inside
    }

    /// Whether a function is somebody else's, but neither the toolchain's nor part of
    /// synchronisation.
    pub(crate) fn is_foreign(&self, frame: &Frame) -> bool {
        const TOOLS: [&str; 3] = ["/rustc/", "/rust/deps/", "/usr/"];
        !self.roots.is_empty()
            && !frame.file.is_empty()
            && !TOOLS.iter().any(|start| frame.file.starts_with(start))
            && !self.is_users(frame)
            && !self.models.has(&frame.function)
            && models::family(&frame.function).is_none()
    }

    /// Whether what is written in this file is the user's.
    pub(crate) fn is_in_users_file(&self, file: &str) -> bool {
        // The standard library's files are named by where it was built.
        if file.is_empty() || file.starts_with("/rustc/") || file.starts_with("/rust/deps/") {
            return false;
        }
        if self.roots.is_empty() {
            // A compiler that is installed elsewhere has its headers in `lib/gcc` or `lib/clang`.
            return !SYSTEM.iter().any(|system| file.starts_with(system))
                && !PACKAGES.iter().any(|package| file.contains(package))
                && !file.contains("/lib/gcc/")
                && !file.contains("/lib/clang/")
                && !file.contains("/include/c++/");
        }
        let file = Path::new(file);
        match (nearest(&self.roots, file), nearest(&self.others, file)) {
            (Some(own), Some(other)) => own >= other,
            (own, _) => own.is_some(),
        }
    }
}

/// How deep the nearest of the directories above a file is.
fn nearest(directories: &[PathBuf], file: &Path) -> Option<usize> {
    let above = directories
        .iter()
        .filter(|directory| file.starts_with(directory));
    above.map(|directory| directory.components().count()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_directory_decides() {
        let options = Options {
            roots: vec!["/w".into(), "/w/vendor/mine".into()],
            others: vec!["/w/vendor".into(), "/r/serde-1".into()],
            ..Options::default()
        };
        for (file, users) in [
            ("/w/src/main.rs", true),
            ("/w/vendor/serde/src/lib.rs", false),
            ("/w/vendor/mine/src/lib.rs", true),
            ("/r/serde-1/src/lib.rs", false),
            ("/workspace/src/lib.rs", false),
            ("", false),
        ] {
            assert_eq!(options.is_in_users_file(file), users, "{file}");
        }
    }

    #[test]
    fn without_directories_all_is_the_users_that_nobody_else_brings_along() {
        for (file, users) in [
            ("/home/me/prog.c", true),
            ("/usr/src/prog/prog.c", true),
            ("/usr/include/c++/12/bits/stl_vector.h", false),
            ("/usr/lib/llvm-19/lib/clang/19/include/stdatomic.h", false),
            ("/home/me/gcc/lib/gcc/x86_64/12/include/stdatomic.h", false),
            ("/home/me/.cargo/registry/src/index/a-1/src/lib.rs", false),
            ("/rustc/0123/library/core/src/ptr.rs", false),
        ] {
            assert_eq!(Options::default().is_in_users_file(file), users, "{file}");
        }
        assert!(Options::everything().is_in_users_file("/usr/include/c++/12/bits/stl_vector.h"));
        assert!(!Options::everything().is_in_users_file("/rustc/0123/library/core/src/ptr.rs"));
    }
}
