//! A program that nobody watches: it was started by itself and not by `atomsan run`, so the
//! runtime has its recording checked when it exits.
//!
//! The checker is the file `checker` beside this library, where the command line has put it. It is
//! another process; what it prints goes to standard error. The exit status of the program stays
//! its own, unless it succeeded and the checker found something.

use crate::format::header;
use crate::{recording, start, thread};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The exit status of a program with findings.
const FINDINGS: i32 = 66;

#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *const c_void,
    symbol: *const c_char,
    address: *const c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> i32;
    fn access(path: *const c_char, mode: i32) -> i32;
    fn on_exit(function: extern "C" fn(i32, *mut c_void), argument: *mut c_void) -> i32;
    #[cfg(not(test))]
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), library: *mut c_void) -> i32;
    fn fflush(stream: *mut c_void) -> i32;
    fn posix_spawn(
        pid: *mut i32,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    static environ: *const *const c_char;
}

/// A path, as the system wants it.
pub(crate) type PathBuffer = [u8; 4096];

/// Puts pieces of a path together; `None` if they do not fit.
pub(crate) fn join<'a>(buffer: &'a mut PathBuffer, pieces: &[&[u8]]) -> Option<&'a CStr> {
    let mut len = 0;
    for &byte in pieces.iter().copied().flatten() {
        *buffer.get_mut(len)? = byte;
        len += 1;
    }
    *buffer.get_mut(len)? = 0;
    CStr::from_bytes_until_nul(buffer).ok()
}

/// The checker beside this library, if there is one.
pub(crate) fn checker(buffer: &mut PathBuffer) -> Option<&CStr> {
    let mut info = DlInfo {
        file: null(),
        base: null(),
        symbol: null(),
        address: null(),
    };
    // SAFETY: any address will do, and the result is a string that lives as long as the library.
    let file = unsafe {
        if dladdr(checker as *const c_void, &mut info) == 0 || info.file.is_null() {
            return None;
        }
        CStr::from_ptr(info.file).to_bytes()
    };
    let directory = &file[..file.iter().rposition(|&byte| byte == b'/')?];
    let path = join(buffer, &[directory, b"/checker"])?;
    const EXECUTABLE: i32 = 1;
    // SAFETY: a string that ends with a zero byte.
    (unsafe { access(path.as_ptr(), EXECUTABLE) } == 0).then_some(path)
}

/// Arranges for the check.
pub(crate) fn check_at_exit() {
    // SAFETY: the functions take what `on_exit` and `quick_exit` give them.
    unsafe {
        on_exit(exiting, null_mut());
        #[cfg(not(test))]
        __cxa_at_quick_exit(quick_exit_handler, null_mut());
    }
}

extern "C" fn exiting(status: i32, _: *mut c_void) {
    if is_due() {
        // SAFETY: libc is about to do the same; what the program has printed belongs in front of
        // what we have to say.
        unsafe { fflush(null_mut()) };
        start::at_exit();
        conclude(status);
    }
}

/// Has the recording checked; ends the process if that changes its status.
fn conclude(status: i32) {
    if found_something() && status == 0 {
        crate::platform::exit_process(FINDINGS);
    }
}

static DONE: AtomicBool = AtomicBool::new(false);

/// Whether this process has a recording that nobody else is going to check. A child of `vfork`
/// shares all of this with its parent, and has none.
fn is_due() -> bool {
    start::is_alone()
        && recording::counter(header::PID).load(Ordering::Relaxed) == crate::platform::process_id()
        && !DONE.swap(true, Ordering::AcqRel)
}

/// Has the recording checked; whether there are findings.
fn found_something() -> bool {
    thread::pause();
    crate::platform::restore_standard_error(STANDARD_ERROR.load(Ordering::Relaxed));
    recording::counter(header::EXITED).store(1, Ordering::Relaxed);
    // Not on the stack, which may be small.
    static PROGRAM: Buffer = Buffer(UnsafeCell::new([0; 4096]));
    static FILE: Buffer = Buffer(UnsafeCell::new([0; 4096]));
    // SAFETY: this is called once in a process, by who has set `DONE`.
    let (program, file) = unsafe { (&mut *PROGRAM.0.get(), &mut *FILE.0.get()) };
    let Some(file) = start::recording_path(file) else {
        return false;
    };
    if start::is_simple_child() {
        crate::platform::remove(file);
        return false;
    }
    let Some(program) = checker(program) else {
        return false;
    };
    let arguments = [
        program.as_ptr(),
        c"recorded".as_ptr(),
        file.as_ptr(),
        null(),
    ];
    let (mut pid, mut found) = (0, 0);
    // SAFETY: strings that end with zero bytes, in arrays that end with null; the environment is
    // the program's own.
    unsafe {
        let spawned = posix_spawn(
            &mut pid,
            program.as_ptr(),
            null(),
            null(),
            arguments.as_ptr(),
            environ,
        );
        let killed = |status: i32| status & 0x7f != 0;
        if spawned != 0 || waitpid(pid, &mut found, 0) != pid || killed(found) {
            crate::platform::say("atomsan: the check could not be run; later, `atomsan recorded ");
            crate::platform::say(file.to_str().unwrap_or("FILE"));
            crate::platform::say("` checks this run\n");
            return false;
        }
    }
    // A status is in the second byte if the process has ended by itself.
    found == FINDINGS << 8
}

struct Buffer(UnsafeCell<PathBuffer>);

// SAFETY: used by one thread, once.
unsafe impl Sync for Buffer {}

/// Many programs close standard error when they exit, before it is our turn.
static STANDARD_ERROR: AtomicI32 = AtomicI32::new(-1);

#[cfg(not(test))]
fn closing(_pc: u64, stream: usize) {
    unsafe extern "C" {
        static stderr: *const c_void;
    }
    // SAFETY: libc's variable, which programs do not change.
    if start::is_alone() && stream == unsafe { stderr } as usize {
        STANDARD_ERROR.store(crate::platform::keep_standard_error(), Ordering::Relaxed);
    }
}

/// The process becomes another program, or dies; its exit status is not ours to choose.
#[cfg(not(test))]
fn ending(_pc: u64, _first: usize) {
    if is_due() {
        found_something();
    }
}

/// The status that `quick_exit` was called with.
#[cfg(not(test))]
static QUICK_STATUS: AtomicI32 = AtomicI32::new(0);

#[cfg(not(test))]
fn exiting_quickly(_pc: u64, status: usize) {
    QUICK_STATUS.store(status as i32, Ordering::Relaxed);
}

/// Runs after all handlers of the program's, because it was there before them.
#[cfg(not(test))]
extern "C" fn quick_exit_handler(_: *mut c_void) {
    if is_due() {
        conclude(QUICK_STATUS.load(Ordering::Relaxed));
    }
}

#[cfg(not(test))]
crate::platform::exported_before! {
    ending: execve execv execvp execvpe execl execle execlp fexecve execveat abort;
    exiting_quickly: quick_exit;
    closing: fclose;
}

extern "C" fn exit_at_once(status: i32) -> ! {
    if is_due() {
        conclude(status);
    }
    crate::platform::exit_process(status)
}

/// Leaves without exit handlers, but not without a check.
#[cfg(not(test))]
// SAFETY: libc's function, interposed.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: i32) -> ! {
    exit_at_once(status)
}

/// The same under its other name.
#[cfg(not(test))]
// SAFETY: libc's function, interposed.
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: i32) -> ! {
    exit_at_once(status)
}
