//! The programs that are measured.

/// Where a program comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A binary of the package `benches/programs`.
    Rust,
    /// A file of `benches/programs/c`.
    C,
    /// Debian's sources.
    Debian(&'static Debian),
}

/// A real program: source packages of Debian, and what of them is compiled. No makefile is used,
/// so the compiler is the only thing that differs between builds.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Debian {
    /// The source packages.
    pub(crate) packages: &'static [&'static str],
    /// Files and directories of C, relative to where the packages are unpacked; `*` at the end
    /// of a directory's name stands for the version.
    pub(crate) c: &'static [&'static str],
    /// The same of C++.
    pub(crate) cpp: &'static [&'static str],
    /// Flags for both.
    pub(crate) flags: &'static [&'static str],
    /// Bytes of text that the program gets as its last argument, in a file.
    pub(crate) input: usize,
}

const ZSTD: Debian = Debian {
    packages: &["libzstd"],
    c: &[
        "libzstd*/lib/common",
        "libzstd*/lib/compress",
        "libzstd*/lib/decompress",
        "libzstd*/lib/dictBuilder",
        "libzstd*/programs",
    ],
    cpp: &[],
    flags: &[
        "-DZSTD_MULTITHREAD",
        "-DZSTD_DISABLE_ASM",
        "-DXXH_NAMESPACE=ZSTD_",
        "-DZSTD_LEGACY_SUPPORT=0",
    ],
    input: 4 << 20,
};

const PBZIP2: Debian = Debian {
    packages: &["pbzip2", "bzip2"],
    c: &[
        "bzip2*/blocksort.c",
        "bzip2*/bzlib.c",
        "bzip2*/compress.c",
        "bzip2*/crctable.c",
        "bzip2*/decompress.c",
        "bzip2*/huffman.c",
        "bzip2*/randtable.c",
    ],
    cpp: &[
        "pbzip2*/BZ2StreamScanner.cpp",
        "pbzip2*/ErrorContext.cpp",
        "pbzip2*/pbzip2.cpp",
    ],
    flags: &["-DUSE_PTHREADS", "-D_FILE_OFFSET_BITS=64"],
    input: 1 << 20,
};

/// A program that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Its name, and that of its source.
    pub(crate) name: &'static str,
    /// What it spends its time with.
    pub(crate) kind: &'static str,
    /// Where it comes from.
    pub(crate) source: Source,
    /// Its arguments.
    pub(crate) arguments: &'static [&'static str],
    /// Its arguments for a quick look.
    pub(crate) quick: &'static [&'static str],
}

macro_rules! programs {
    ($($name:literal $kind:literal $source:expr, $arguments:expr, $quick:expr;)*) => {
        &[$(Program {
            name: $name,
            kind: $kind,
            source: $source,
            arguments: &$arguments,
            quick: &$quick,
        },)*]
    };
}

/// All of them.
pub(crate) const PROGRAMS: &[Program] = programs! {
    "sieve" "compute, bytes" Source::Rust, ["10"], ["2"];
    "matrix" "compute, read-shared" Source::Rust, ["5"], ["1"];
    "sort" "compute, calls" Source::Rust, ["5"], ["1"];
    "shards" "locks, hash map" Source::Rust, ["3"], ["1"];
    "locks" "locks, contended" Source::Rust, ["5"], ["1"];
    "allocate" "allocation" Source::Rust, ["10"], ["2"];
    "atomics" "atomics" Source::Rust, ["5"], ["1"];
    "readers" "read-shared" Source::Rust, ["5"], ["1"];
    "threads" "many threads" Source::Rust, ["5"], ["1"];
    "rayon" "rayon" Source::Rust, ["10"], ["2"];
    "pipeline" "crossbeam channels" Source::Rust, ["5"], ["1"];
    "cache" "parking_lot map" Source::Rust, ["5"], ["1"];
    "table" "C, locks and lists" Source::C, ["5"], ["1"];
    "grid" "C, compute, barrier" Source::C, ["20"], ["4"];
    "buffer" "C, waiting" Source::C, ["5"], ["1"];
    "queens" "C, compute, calls" Source::C, ["20"], ["4"];
    "zstd" "C, real" Source::Debian(&ZSTD), ["-T2", "-B1M", "-3", "-q", "-c"], ["-T2", "-B1M", "-1", "-q", "-c"];
    "pbzip2" "C++, real" Source::Debian(&PBZIP2), ["-p2", "-b2", "-k", "-c"], ["-p2", "-b1", "-1", "-k", "-c"];
};
