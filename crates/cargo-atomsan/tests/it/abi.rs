//! The runtime has every function that a compiler on this machine calls, that a program may call,
//! and that a program expects to be interposed. A missing one is a program that does not link, or
//! something that is silently not seen.

use crate::support::{command, root};
use object::{Object as _, ObjectSymbol as _};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

type Names = BTreeSet<String>;

fn symbols<'a>(
    symbols: impl Iterator<Item = object::Symbol<'a, 'a>>,
    defined: bool,
) -> impl Iterator<Item = String> {
    symbols
        .filter(move |symbol| symbol.is_definition() == defined)
        .filter_map(|symbol| Some(symbol.name().ok()?.to_owned()))
}

/// What a shared library exports.
fn exported(library: &Path) -> Names {
    let data = fs::read(library).unwrap();
    let file = object::File::parse(&*data).unwrap();
    symbols(file.dynamic_symbols(), true).collect()
}

/// What an object file needs of the runtime.
fn needed(file: &Path) -> Names {
    let data = fs::read(file).unwrap();
    let file = object::File::parse(&*data).unwrap();
    symbols(file.symbols(), false)
        .filter(|name| name.starts_with("__tsan_"))
        .collect()
}

/// The runtime that `atomsan cc` links.
fn ours(out: &Path) -> Names {
    let (source, program) = (out.join("empty.c"), out.join("empty"));
    fs::write(&source, "int main(void) { return 0; }").unwrap();
    let built = command()
        .arg("cc")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.unwrap().success());
    let linked = Command::new("ldd")
        .arg(program)
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap();
    let linked = String::from_utf8(linked.stdout).unwrap();
    let path = linked
        .lines()
        .find_map(|line| line.split_once("libatomsan_rt.so => ")?.1.split(' ').next());
    exported(Path::new(path.unwrap()))
}

fn missing(wanted: &Names, ours: &Names) -> Vec<String> {
    wanted.difference(ours).cloned().collect()
}

/// `None` where the compiler does not exist; CI has gcc.
fn compiled(compiler: &str, options: &[&str], out: &Path) -> Option<Names> {
    let object = out.join("abi.o");
    let output = Command::new(compiler)
        .args(["-c", "-fsanitize=thread", "-mcx16", "-w"])
        .args(options)
        .arg(root().join("tests/programs/abi.c"))
        .arg("-o")
        .arg(&object)
        .output();
    let Ok(output) = output else {
        assert!(compiler != "gcc" || std::env::var_os("CI").is_none());
        eprintln!("skipped: there is no {compiler} here");
        return None;
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {options:?}: {stderr}");
    Some(needed(&object))
}

#[test]
fn what_c_compilers_emit() {
    let out = tempfile::tempdir().unwrap();
    let ours = ours(out.path());
    let gcc: &[&[&str]] = &[
        &["-O0"],
        &["-O2"],
        &["-O2", "--param=tsan-distinguish-volatile=1"],
    ];
    let clang: &[&[&str]] = &[
        &["-O0", "-DWIDE"],
        &[
            "-O2",
            "-DWIDE",
            "-mllvm",
            "-tsan-instrument-read-before-write=1",
        ],
        &[
            "-O2",
            "-DWIDE",
            "-mllvm",
            "-tsan-compound-read-before-write=1",
        ],
        &["-O2", "-DWIDE", "-mllvm", "-tsan-distinguish-volatile=1"],
    ];
    let compilers = [
        ("gcc", gcc),
        ("clang-14", clang),
        ("clang-19", clang),
        ("clang", clang),
    ];
    for (compiler, options) in compilers {
        for options in options {
            let Some(needed) = compiled(compiler, options, out.path()) else {
                continue;
            };
            assert!(needed.len() > 40, "{compiler} {options:?}: {needed:?}");
            assert_eq!(missing(&needed, &ours), [""; 0], "{compiler} {options:?}");
        }
    }
}

#[test]
fn what_rustc_emits() {
    let out = tempfile::tempdir().unwrap();
    let ours = ours(out.path());
    let mut source = String::from("#![crate_type = \"lib\"]\nuse std::sync::atomic::*;\n");
    for bits in [8, 16, 32, 64] {
        source += &format!(
            "#[unsafe(no_mangle)] pub fn atomic{bits}(a: &AtomicU{bits}, o: Ordering) -> u{bits} {{
                a.store(1, Ordering::Release);
                let _ = a.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed);
                let _ = a.compare_exchange_weak(1, 2, Ordering::SeqCst, Ordering::Acquire);
                fence(Ordering::SeqCst); compiler_fence(Ordering::SeqCst); let _ = o;
                a.load(Ordering::Acquire) + a.swap(3, Ordering::AcqRel) + a.fetch_add(1, Ordering::SeqCst)
                    + a.fetch_sub(1, Ordering::Relaxed) + a.fetch_and(1, Ordering::Relaxed)
                    + a.fetch_or(1, Ordering::Relaxed) + a.fetch_xor(1, Ordering::Relaxed)
                    + a.fetch_nand(1, Ordering::Relaxed) + a.fetch_max(1, Ordering::Relaxed)
                    + a.fetch_min(1, Ordering::Relaxed)
            }}
            #[unsafe(no_mangle)] pub fn plain{bits}(a: &mut u{bits}, b: *mut u{bits}) {{
                *a += 1; unsafe {{ b.write_unaligned(b.read_unaligned() + *a); b.write_volatile(b.read_volatile()) }}
            }}\n"
        );
    }
    source += "#[unsafe(no_mangle)] pub fn copies(a: &mut [u8], b: &[u8]) { a.copy_from_slice(b); a.fill(1); a.copy_within(1.., 0); }
        #[unsafe(no_mangle)] pub fn wide(a: &mut u128) { *a += 1; }\n";
    let (file, object) = (out.path().join("abi.rs"), out.path().join("abi.o"));
    fs::write(&file, source).unwrap();
    for option in ["-Copt-level=0", "-Copt-level=3"] {
        let output = Command::new("rustc")
            .args(["--edition=2024", "--emit=obj", "-Ccodegen-units=1", option])
            .args([
                "-Cno-vectorize-slp",
                "-Cllvm-args=-force-attribute=sanitize_thread",
                "-Cllvm-args=-tsan-instrument-read-before-write",
                "-Cpasses=forceattrs,function(scalarizer<load-store;min-bits=128>),tsan-module,function(tsan)",
            ])
            .arg(&file)
            .arg("-o")
            .arg(&object)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let needed = needed(&object);
        assert!(needed.len() > 40, "{needed:?}");
        assert_eq!(missing(&needed, &ours), [""; 0]);
    }
}

/// Names that a program may define, and that a runtime calls.
fn is_callback(name: &str) -> bool {
    ["__tsan_on_", "__tsan_default_", "__tsan_symbolize_external"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn is_abi(name: &str) -> bool {
    (name.starts_with("__tsan_") || name.contains("Annotate") && !name.starts_with('_'))
        && !is_callback(name)
}

#[test]
fn what_gccs_own_library_has() {
    let output = Command::new("gcc")
        .arg("-print-file-name=libtsan.so")
        .output();
    let path = PathBuf::from(String::from_utf8(output.unwrap().stdout).unwrap().trim());
    if !path.exists() {
        assert!(std::env::var_os("CI").is_none(), "CI must have it");
        eprintln!("skipped: gcc has no ThreadSanitizer here");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let theirs = exported(&path)
        .into_iter()
        .filter(|name| is_abi(name))
        .collect();
    assert_eq!(missing(&theirs, &ours(out.path())), [""; 0]);
}

/// rustc comes with LLVM's own runtime, which is newer than gcc's.
#[test]
fn what_llvms_own_library_has() {
    /// Internals of that runtime, which no program calls.
    const INTERNAL: &[&str] = &[
        "__tsan_thread_start_func",
        "__tsan_preinit",
        "__tsan_stack_initialization",
        "__tsan_tls_initialization",
    ];
    let output = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output();
    let directory = String::from_utf8(output.unwrap().stdout).unwrap();
    let archive = fs::read_dir(directory.trim())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with("_rt.tsan.a"));
    let Some(archive) = archive else {
        eprintln!("skipped: rustc has no ThreadSanitizer here");
        return;
    };
    let data = fs::read(archive).unwrap();
    let archive = object::read::archive::ArchiveFile::parse(&*data).unwrap();
    let mut theirs = Names::new();
    for member in archive.members() {
        let Ok(member) = member.unwrap().data(&*data) else {
            continue;
        };
        if let Ok(file) = object::File::parse(member) {
            let global = file.symbols().filter(|symbol| symbol.is_global());
            theirs.extend(symbols(global, true).filter(|name| is_abi(name)));
        }
    }
    assert!(theirs.len() > 100);
    let out = tempfile::tempdir().unwrap();
    let mut missing = missing(&theirs, &ours(out.path()));
    missing.retain(|name| !INTERNAL.contains(&name.as_str()));
    assert_eq!(missing, [""; 0]);
}

/// Functions of libc that programs synchronise, allocate, pause and end with.
const INTERPOSED: &str = "
    pthread_create pthread_join pthread_tryjoin_np pthread_timedjoin_np pthread_clockjoin_np pthread_detach
    pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock pthread_mutex_clocklock pthread_mutex_unlock
    pthread_rwlock_rdlock pthread_rwlock_tryrdlock pthread_rwlock_timedrdlock pthread_rwlock_clockrdlock
    pthread_rwlock_wrlock pthread_rwlock_trywrlock pthread_rwlock_timedwrlock pthread_rwlock_clockwrlock
    pthread_rwlock_unlock pthread_spin_lock pthread_spin_trylock pthread_spin_unlock pthread_barrier_wait
    pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait pthread_cond_signal pthread_cond_broadcast
    pthread_once sem_wait sem_trywait sem_timedwait sem_clockwait sem_post
    thrd_create thrd_join thrd_detach thrd_yield thrd_sleep mtx_lock mtx_trylock mtx_timedlock mtx_unlock
    cnd_wait cnd_timedwait cnd_signal cnd_broadcast call_once
    __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort
    malloc calloc realloc reallocarray memalign aligned_alloc posix_memalign valloc pvalloc free
    mmap mmap64 munmap mremap memcpy memmove memset mempcpy memcmp bcmp __memcpy_chk __memmove_chk __memset_chk
    sleep usleep nanosleep clock_nanosleep sched_yield pause
    longjmp _longjmp siglongjmp execve execv execvp execl quick_exit abort _exit _Exit
";

#[test]
fn what_libc_has_and_programs_need_to_be_seen() {
    let out = tempfile::tempdir().unwrap();
    let wanted = INTERPOSED.split_whitespace().map(str::to_owned).collect();
    assert_eq!(missing(&wanted, &ours(out.path())), [""; 0]);
}
