//! The life of the process: start, fork, exit.
//!
//! Hooks may run before any constructor of ours (gcc calls `__tsan_init` before the first shared
//! library is initialised), so everything is set up by whoever comes first ([`ensure`]), from
//! nothing but system calls.
//!
//! | variable | meaning |
//! |---|---|
//! | `ATOMSAN_DIR` | the directory for recordings, one file `PID.rec` a process, `PID-N.rec` after its N-th `exec`; without it, see [`crate::alone`] |
//! | `ATOMSAN_MEMORY` | how many bytes a recording may have |
//! | `ATOMSAN_FOLLOWED` | the process that watches the directory and follows the recordings, and is rung (SIGURG) by who waits for it; 0 if there is none |
//! | `ATOMSAN_LOGS` | 0 if only edges between transactions are recorded, 2 if they are recorded beside everything, 3 if all of that is kept |
//! | `ATOMSAN_OUTSIDE` | 0 if plain accesses outside of regions do not count |
//! | `ATOMSAN_NOISE` | after one in so many releases, atomic operations and functions, a thread lets others run; after more where it seldom is |
//! | `ATOMSAN_NOISE_SEED` | a number; another one is another noise |
//! | `NEXTEST_BINARY_ID`, `NEXTEST_TEST_NAME` | the test that this process is, as nextest says |

use crate::alone::{self, PathBuffer, join};
use crate::format::header;
use crate::{calls, ownership, platform, recording, shadow, thread};
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

const NEW: u8 = 0;
const STARTING: u8 = 1;
const ON: u8 = 2;
const OFF: u8 = 3;
static STATE: AtomicU8 = AtomicU8::new(NEW);

/// Threads that were started so far.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// The environment at the start of the process, as `/proc` shows it.
static ENVIRONMENT: AtomicUsize = AtomicUsize::new(0);
static ENVIRONMENT_LEN: AtomicUsize = AtomicUsize::new(0);
const ENVIRONMENT_MAX: usize = 4 << 20;

const DEFAULT_MEMORY: usize = 4 << 30;

/// One in so many releases and atomic operations makes a thread sleep; 0 for none.
static NOISE: AtomicU64 = AtomicU64::new(0);

/// Whether other threads are let in now and then.
#[inline(always)]
pub(crate) fn is_noisy() -> bool {
    NOISE.load(Ordering::Relaxed) > 0
}

/// Lets other threads in where a step has been made, now and then, so that more than one schedule
/// is seen. `place` is where in the program that is; 0 if it does not matter.
#[inline]
pub(crate) fn noise(place: u64) {
    let every = NOISE.load(Ordering::Relaxed);
    if every > 0 {
        make_noise(every, place);
    }
}

/// What the noise of this run starts from.
static SEED: AtomicU64 = AtomicU64::new(0);

/// A place is rare until it has been passed so often: what happens seldom goes wrong seldom, so it gets
/// more noise, and others more time. There are few such moments, so they cost little.
const RARE: u8 = 4;

#[cold]
fn make_noise(every: u64, place: u64) {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let dice = spread(turn ^ SEED.load(Ordering::Relaxed));
    // The first thread is busy starting the others: it should not be late with that.
    let first = thread::current().is_some_and(|thread| thread.number.get() == 0);
    let rare = place != 0 && !first && is_rare(place);
    let every = if rare { 2 } else { every };
    if dice >> 32 >= (1 << 32) / every {
        return;
    }
    // Others need more or less time to get where it hurts.
    match dice & 3 {
        0 => platform::yield_now(),
        _ if rare => platform::sleep_microseconds((100 << (dice >> 2 & 3)) + (dice >> 4) % 100),
        _ => platform::sleep_microseconds(10 + (dice >> 2) % 100),
    }
}

/// Whether a place has seldom been passed so far. Places may share a count.
fn is_rare(place: u64) -> bool {
    static PASSED: [AtomicU8; 1024] = [const { AtomicU8::new(0) }; 1024];
    let passed = &PASSED[spread(place) as usize % PASSED.len()];
    let before = passed.load(Ordering::Relaxed);
    if before < RARE {
        passed.store(before + 1, Ordering::Relaxed);
    }
    before < RARE
}

/// A number that has nothing to do with its neighbours, so that noise does not fall into step with
/// the program's loops.
fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// What is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logs {
    /// Edges between transactions.
    Edges,
    /// Everything.
    All,
    /// Everything, and edges between transactions.
    Transactions,
}

static LOGS: AtomicU8 = AtomicU8::new(Logs::All as u8);

/// What is recorded.
pub(crate) fn logs() -> Logs {
    match LOGS.load(Ordering::Relaxed) {
        0 => Logs::Edges,
        2 => Logs::Transactions,
        _ => Logs::All,
    }
}

/// Whether no part of a log is written over.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Whether no part of a log is written over while it is followed.
pub(crate) fn keeps_logs() -> bool {
    KEEPS.load(Ordering::Relaxed)
}

/// Whether plain accesses outside of regions do not count.
static SKIPS: AtomicBool = AtomicBool::new(false);

/// Whether plain accesses outside of regions do not count.
pub(crate) fn skips_outside() -> bool {
    SKIPS.load(Ordering::Relaxed)
}

/// Makes sure that the recording has been started, by this call or another; whether there is one.
pub(crate) fn ensure() -> bool {
    loop {
        match STATE.load(Ordering::Acquire) {
            ON => return true,
            OFF => return false,
            STARTING => platform::yield_now(),
            _ => {
                let first =
                    STATE.compare_exchange(NEW, STARTING, Ordering::AcqRel, Ordering::Relaxed);
                if first.is_ok() {
                    read_environment();
                    let on = shadow::reserve() && open_recording();
                    if !on && is_expected() {
                        platform::say(NOT_RECORDED);
                    }
                    STATE.store(if on { ON } else { OFF }, Ordering::Release);
                }
            }
        }
    }
}

const NOT_RECORDED: &str = "atomsan: this run is not checked: there is no room for the shadow of its \
    memory or for the recording; see `ulimit -v`, `ulimit -f`, and the space in TMPDIR\n";

/// Whether the user expects a check, and nobody else is there to say that there is none.
fn is_expected() -> bool {
    let mut path = [0; 4096];
    !cfg!(test) && variable(b"ATOMSAN_DIR").is_none() && alone::checker(&mut path).is_some()
}

/// As if the recording had been started, which a test has done by itself.
#[cfg(test)]
pub(crate) fn is_on() {
    STATE.store(ON, Ordering::Release);
}

/// From now on, this is recorded.
#[cfg(test)]
pub(crate) fn set_logs(logs: Logs) {
    LOGS.store(logs as u8, Ordering::Relaxed);
}

/// The number of a thread that is about to start.
pub(crate) fn new_thread_number() -> u64 {
    THREADS.fetch_add(1, Ordering::Relaxed)
}

fn read_environment() {
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { platform::open(c"/proc/self/environ".as_ptr().cast(), false) };
    let buffer = platform::map_memory(ENVIRONMENT_MAX);
    if fd < 0 || buffer.is_null() {
        return;
    }
    let mut len = 0;
    while len < ENVIRONMENT_MAX - 1 {
        // SAFETY: the buffer has this much room.
        let count = unsafe { platform::read(fd, buffer.add(len), ENVIRONMENT_MAX - 1 - len) };
        if count <= 0 {
            break;
        }
        len += count as usize;
    }
    platform::close(fd);
    ENVIRONMENT.store(buffer as usize, Ordering::Relaxed);
    ENVIRONMENT_LEN.store(len, Ordering::Relaxed);
}

/// The value of an environment variable, as it was at the start.
fn variable(name: &[u8]) -> Option<&'static [u8]> {
    let at = ENVIRONMENT.load(Ordering::Relaxed) as *const u8;
    if at.is_null() {
        return None;
    }
    // SAFETY: the buffer was filled up to this length, once, and is never given back.
    let text = unsafe { core::slice::from_raw_parts(at, ENVIRONMENT_LEN.load(Ordering::Relaxed)) };
    text.split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))
}

fn number(text: &[u8]) -> Option<usize> {
    text.iter().try_fold(0usize, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| usize::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether nobody watches this process (see [`crate::alone`]).
static ALONE: AtomicBool = AtomicBool::new(false);

/// Whether nobody watches this process.
pub(crate) fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// How many recordings of this process there were before: it may have started another program in
/// its place.
static EARLIER: AtomicU64 = AtomicU64::new(0);
const EARLIER_MAX: u64 = 1000;

/// Where this process records: `$ATOMSAN_DIR/PID.rec`, or a temporary file if nobody watches.
pub(crate) fn recording_path(buffer: &mut PathBuffer) -> Option<&CStr> {
    let (mut digits, mut more_digits) = ([0u8; 20], [0u8; 20]);
    let process = decimal(platform::process_id(), &mut digits);
    let (hyphen, earlier): (&[u8], &[u8]) = match EARLIER.load(Ordering::Relaxed) {
        0 => (b"", b""),
        earlier => (b"-", decimal(earlier, &mut more_digits)),
    };
    let (directory, prefix): (_, &[u8]) = match variable(b"ATOMSAN_DIR") {
        Some(directory) => (directory, b"/"),
        None => (variable(b"TMPDIR").unwrap_or(b"/tmp"), b"/atomsan-"),
    };
    join(
        buffer,
        &[directory, prefix, process, hyphen, earlier, b".rec"],
    )
}

/// A path that no recording has yet.
fn new_recording_path(buffer: &mut PathBuffer) -> Option<&CStr> {
    for earlier in 0..EARLIER_MAX {
        EARLIER.store(earlier, Ordering::Relaxed);
        if !platform::exists(recording_path(buffer)?) {
            break;
        }
    }
    recording_path(buffer)
}

fn open_recording() -> bool {
    let mut path = [0; 4096];
    if variable(b"ATOMSAN_DIR").is_none() {
        if cfg!(test) || alone::checker(&mut path).is_none() {
            return false;
        }
        ALONE.store(true, Ordering::Relaxed);
    }
    let noise = variable(b"ATOMSAN_NOISE").and_then(number).unwrap_or(0);
    NOISE.store(noise as u64, Ordering::Relaxed);
    let seed = variable(b"ATOMSAN_NOISE_SEED")
        .and_then(number)
        .unwrap_or(0);
    SEED.store(
        (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        Ordering::Relaxed,
    );
    match variable(b"ATOMSAN_LOGS") {
        Some(b"0") => {
            LOGS.store(Logs::Edges as u8, Ordering::Relaxed);
            ownership::log_no_accesses();
        }
        Some(b"2") => LOGS.store(Logs::Transactions as u8, Ordering::Relaxed),
        Some(b"3") => {
            LOGS.store(Logs::Transactions as u8, Ordering::Relaxed);
            KEEPS.store(true, Ordering::Relaxed);
        }
        _ => {}
    }
    SKIPS.store(
        variable(b"ATOMSAN_OUTSIDE") == Some(b"0"),
        Ordering::Relaxed,
    );
    let memory = variable(b"ATOMSAN_MEMORY")
        .and_then(number)
        .unwrap_or(DEFAULT_MEMORY);
    let Some(path) = new_recording_path(&mut path) else {
        return false;
    };
    let follower = variable(b"ATOMSAN_FOLLOWED").and_then(number).unwrap_or(0);
    // SAFETY: the path ends with a zero byte, and nobody records yet.
    let open = unsafe { recording::open(path.as_ptr().cast(), memory, follower) };
    if open {
        recording::write_maps();
        if let Some(binary) = variable(b"NEXTEST_BINARY_ID")
            && let Some(test) = variable(b"NEXTEST_TEST_NAME")
        {
            recording::write_test(binary, test);
        }
    }
    open
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// Whether this process was made by `fork`.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process was made by `fork`, and has started no thread: nothing is shared.
pub(crate) fn is_simple_child() -> bool {
    CHILD.load(Ordering::Relaxed)
        && recording::counter(header::THREADS).load(Ordering::Relaxed) <= 1
}

/// In a child of `fork`: a recording of its own.
///
/// # Safety
/// The process must have one thread.
unsafe extern "C" fn after_fork() {
    if STATE.load(Ordering::Acquire) != ON {
        return;
    }
    // The parent's log is still mapped here: nothing may be recorded before there is a new one.
    let thread = thread::pause();
    CHILD.store(true, Ordering::Relaxed);
    recording::close();
    calls::start_over();
    thread::forget_origins();
    if open_recording() {
        // SAFETY: the caller vouches for it.
        unsafe { thread::after_fork(thread) };
    } else {
        STATE.store(OFF, Ordering::Release);
    }
}

/// The process comes to its end in good order.
pub(crate) extern "C" fn at_exit() {
    #[cfg(not(test))]
    exported::notice_libraries();
    recording::counter(header::EXITED).store(1, Ordering::Relaxed);
}

unsafe extern "C" {
    fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        handle: *const u8,
    ) -> i32;
    fn pthread_self() -> usize;
    fn pthread_getattr_np(thread: usize, attributes: *mut [u64; 8]) -> i32;
    fn pthread_attr_getstack(attributes: *const [u64; 8], low: *mut usize, size: *mut usize)
    -> i32;
    fn pthread_attr_destroy(attributes: *mut [u64; 8]) -> i32;
}

/// The calling thread's stack: lowest address and end.
pub(crate) fn stack_bounds() -> (usize, usize) {
    let mut attributes = [0u64; 8];
    let (mut low, mut size) = (0, 0);
    // SAFETY: the attributes of glibc are 56 bytes on this platform.
    unsafe {
        if pthread_getattr_np(pthread_self(), &mut attributes) != 0 {
            return (0, 0);
        }
        pthread_attr_getstack(&attributes, &mut low, &mut size);
        pthread_attr_destroy(&mut attributes);
    }
    (low, low.saturating_add(size))
}

#[cfg(not(test))]
mod exported {
    use super::*;

    /// Called by each object file that was instrumented.
    // SAFETY: the name belongs to the instrumentation ABI that this library implements.
    #[unsafe(no_mangle)]
    extern "C" fn __tsan_init() {
        if thread::current().is_some() {
            notice_libraries();
        }
    }

    #[repr(C)]
    struct Library {
        base: usize,
        name: *const u8,
        headers: *const u8,
        header_count: u16,
        /// How often libraries were loaded so far.
        loads: u64,
    }

    unsafe extern "C" {
        fn dl_iterate_phdr(
            callback: unsafe extern "C" fn(*const Library, usize, *mut u64) -> i32,
            data: *mut u64,
        ) -> i32;
    }

    unsafe extern "C" fn count_loads(library: *const Library, _size: usize, data: *mut u64) -> i32 {
        // SAFETY: libc's description of a library, and the number that `notice_libraries` gave.
        unsafe { data.write((*library).loads) };
        1
    }

    /// Writes the memory map down again if a library was loaded since: an instrumented one calls
    /// [`__tsan_init`] when it is; others are noticed at the end, or when one is closed.
    pub(super) fn notice_libraries() {
        static LOADS: AtomicU64 = AtomicU64::new(0);
        let mut loads = 0;
        // SAFETY: the callback takes what libc gives it.
        unsafe { dl_iterate_phdr(count_loads, &mut loads) };
        match LOADS.swap(loads, Ordering::Relaxed) {
            0 => {}
            before if before == loads => {}
            _ => recording::write_maps(),
        }
    }

    fn closing(_pc: u64, _library: usize) {
        if thread::current().is_some() {
            notice_libraries();
        }
    }

    crate::platform::exported_before! {
        closing: dlclose;
    }

    extern "C" fn constructor() {
        // SAFETY: the handler runs in the child, which has one thread.
        unsafe { __register_atfork(None, None, Some(after_fork), core::ptr::null()) };
        if thread::current().is_some() {
            notice_libraries();
        }
        if is_alone() {
            alone::check_at_exit();
        }
    }

    // SAFETY: the loader calls what it finds in these sections, with the C calling convention.
    #[unsafe(link_section = ".init_array")]
    #[used]
    static CONSTRUCTOR: extern "C" fn() = constructor;
    // SAFETY: as above.
    #[unsafe(link_section = ".fini_array")]
    #[used]
    static DESTRUCTOR: extern "C" fn() = at_exit;
}
