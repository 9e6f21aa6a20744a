//! Starting and joining threads, and pausing one, interposed.
//!
//! A thread that is started gets its number from its parent, before it runs, and starts after
//! the parent's `Fork`. Its record is closed by a thread-specific destructor that puts itself
//! off until all others have run, because those are the program's and are recorded. Whoever
//! joins it is after its end.

use crate::format::{Kind, first_word, second_word};
use crate::platform::{Signals, exported_before, exported_with_caller};
use crate::real::{self, StartRoutine};
use crate::thread::Parent;
use crate::{locks, start, thread};
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
    fn pthread_key_create(key: *mut u32, destructor: unsafe extern "C" fn(*mut c_void)) -> i32;
    fn pthread_setspecific(key: u32, value: *const c_void) -> i32;
    fn pthread_self() -> usize;
}

/// A thread that can still be joined or detached.
struct Handle {
    /// libc's name for the thread, which is even; [`FREE`], or an odd number while it has none.
    thread: AtomicUsize,
    number: AtomicU64,
    slot: AtomicU32,
    /// The end of its log; 0 while it runs.
    end: AtomicU64,
    detached: AtomicU32,
}

const FREE: usize = 0;
/// Taken by who joins or detaches the thread.
const TAKEN: usize = 1;
const HANDLES: usize = 1 << 15;

static TABLE: [Handle; HANDLES] = [const {
    Handle {
        thread: AtomicUsize::new(FREE),
        number: AtomicU64::new(0),
        slot: AtomicU32::new(0),
        end: AtomicU64::new(0),
        detached: AtomicU32::new(0),
    }
}; HANDLES];
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Handle {
    fn reserve(number: u64) -> Option<&'static Handle> {
        for _ in 0..HANDLES {
            let handle = &TABLE[NEXT.fetch_add(1, Ordering::Relaxed) % HANDLES];
            let reserved = handle.thread.compare_exchange(
                FREE,
                reserved(number),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if reserved.is_ok() {
                handle.number.store(number, Ordering::Relaxed);
                handle.slot.store(0, Ordering::Relaxed);
                handle.end.store(0, Ordering::Relaxed);
                handle.detached.store(0, Ordering::Relaxed);
                return Some(handle);
            }
        }
        None
    }

    /// The handle of a thread, reserved for the caller.
    fn take(thread: usize) -> Option<&'static Handle> {
        TABLE.iter().find(|handle| {
            handle.thread.load(Ordering::Relaxed) == thread
                && handle
                    .thread
                    .compare_exchange(thread, TAKEN, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        })
    }

    /// Writes the thread's name down. Both the parent, which may join the thread at once, and the
    /// thread, which may detach itself at once, do so before they go on; who comes second may find
    /// that the handle is somebody else's by now.
    fn set_name(&self, number: u64, name: usize) {
        let _ = self.thread.compare_exchange(
            reserved(number),
            name,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    fn release(&self) {
        self.thread.store(FREE, Ordering::Release);
    }
}

/// What stands for the name of the thread with this number until it has one.
fn reserved(number: u64) -> usize {
    (number as usize + 1) << 1 | 1
}

/// What a new thread needs to know.
struct Start {
    routine: StartRoutine,
    argument: *mut c_void,
    number: u64,
    parent: Parent,
    handle: Option<&'static Handle>,
    /// Which signals are kept away from the thread once it has its record: as its attributes say, or else as from the one that
    /// starts it.
    asked: Option<Signals>,
    signals: Signals,
}

unsafe extern "C-unwind" fn create(
    thread: *mut usize,
    attributes: usize,
    routine: StartRoutine,
    argument: *mut c_void,
    pc: u64,
) -> i32 {
    let parent = thread::current().and_then(|parent| {
        let number = start::new_thread_number();
        let handle = Handle::reserve(number);
        let parent = parent.work(|| parent.gives_birth(number, pc))?;
        Some((number, handle, parent))
    });
    let Some((number, handle, parent)) = parent else {
        // SAFETY: the program's own call.
        return unsafe { real::pthread_create(thread, attributes, routine, argument) };
    };
    // SAFETY: libc's allocator, for a block that only `run` uses and frees.
    unsafe {
        let start = __libc_malloc(size_of::<Start>()).cast::<Start>();
        if start.is_null() {
            return real::pthread_create(thread, attributes, routine, argument);
        }
        let asked = real::signals_of(attributes).map(Signals::of_set);
        // A handler that comes before the thread has its record must not make one: the allocator may be in the middle of
        // something. A thread gets no signals that are kept away from the one that starts it.
        let signals = Signals::ALL.keep_away();
        start.write(Start {
            routine,
            argument,
            number,
            parent,
            handle,
            asked,
            signals,
        });
        let result = real::pthread_create(thread, attributes, run, start.cast());
        signals.keep_away();
        if result != 0 {
            __libc_free(start.cast());
        }
        match handle {
            Some(handle) if result == 0 => handle.set_name(number, thread.read()),
            Some(handle) => handle.release(),
            None => {}
        }
        result
    }
}

/// The first function of a thread.
unsafe extern "C-unwind" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `create` made the block for this thread.
    let Start {
        routine,
        argument,
        number,
        parent,
        handle,
        asked,
        signals,
    } = unsafe {
        let block = start.cast::<Start>().read();
        __libc_free(start);
        block
    };
    let thread = thread::register(number, Some(parent), start::stack_bounds);
    if let Some(handle) = handle {
        handle.slot.store(
            thread.map_or(0, |thread| thread.slot.get()),
            Ordering::Relaxed,
        );
        // SAFETY: it has no conditions.
        handle.set_name(number, unsafe { pthread_self() });
    }
    if thread.is_some() {
        end_later(handle, 0);
    }
    // There may be attributes that we have not seen: the process's, for threads that have none of their own.
    let own = Signals::ALL.keep_away();
    let inherited = || if own.are_all() { signals } else { own };
    asked.unwrap_or_else(inherited).keep_away();
    // SAFETY: the program's own routine and argument.
    unsafe { routine(argument) }
}

/// libc runs destructors in four rounds; ours waits for the last.
const ROUNDS: usize = 4;
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Arms the destructor that ends the thread's record; its value is the handle and the round.
fn end_later(handle: Option<&'static Handle>, round: usize) {
    let index = handle.map_or(0, |handle| {
        (core::ptr::from_ref(handle) as usize - TABLE.as_ptr() as usize) / size_of::<Handle>() + 1
    });
    // SAFETY: the key was made for this, and the value is a number.
    unsafe { pthread_setspecific(key(), (index * 8 + round + 1) as *const c_void) };
}

fn key() -> u32 {
    let key = KEY.load(Ordering::Acquire);
    if key != u32::MAX {
        return key;
    }
    let mut new = 0;
    // SAFETY: the destructor takes the value that `end_later` sets.
    unsafe { pthread_key_create(&mut new, end) };
    // A key that lost the race is never used.
    match KEY.compare_exchange(u32::MAX, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(first) => first,
    }
}

unsafe extern "C" fn end(value: *mut c_void) {
    let (index, round) = ((value as usize - 1) / 8, (value as usize - 1) % 8);
    let handle = index.checked_sub(1).and_then(|index| TABLE.get(index));
    if round + 1 < ROUNDS {
        return end_later(handle, round + 1);
    }
    let position = thread::current().map_or(0, thread::Thread::end);
    if let Some(handle) = handle {
        handle.end.store(position, Ordering::Release);
        if handle.detached.load(Ordering::Acquire) != 0 {
            handle.release();
        }
    }
}

/// Records a join around the real one. The thread's name is taken away before, because a new
/// thread may have it as soon as the join is over.
fn joining(name: usize, pc: u64, join: impl FnOnce() -> i32) -> i32 {
    let handle = Handle::take(name);
    if handle.is_some() {
        locks::step(Kind::Yield, 0, pc);
    }
    let result = join();
    let Some(handle) = handle else {
        return result;
    };
    if result != 0 {
        handle.thread.store(name, Ordering::Release);
        return result;
    }
    if let Some(thread) = thread::current() {
        thread.work(|| {
            let end = handle.end.load(Ordering::Acquire);
            thread.after_position(handle.slot.load(Ordering::Relaxed), end);
            thread.append_step(Kind::Join, handle.number.load(Ordering::Relaxed), pc);
        });
    }
    handle.release();
    result
}

unsafe extern "C-unwind" fn join(thread: usize, result: usize, pc: u64) -> i32 {
    // SAFETY: the program's own call.
    joining(thread, pc, || unsafe { real::pthread_join(thread, result) })
}

unsafe extern "C-unwind" fn tryjoin(thread: usize, result: usize, pc: u64) -> i32 {
    // SAFETY: the program's own call.
    joining(thread, pc, || unsafe {
        real::pthread_tryjoin_np(thread, result)
    })
}

unsafe extern "C-unwind" fn timedjoin(thread: usize, result: usize, time: usize, pc: u64) -> i32 {
    // SAFETY: the program's own call.
    joining(thread, pc, || unsafe {
        real::pthread_timedjoin_np(thread, result, time)
    })
}

unsafe extern "C-unwind" fn clockjoin(
    thread: usize,
    result: usize,
    clock: i32,
    time: usize,
    pc: u64,
) -> i32 {
    // SAFETY: the program's own call.
    joining(thread, pc, || unsafe {
        real::pthread_clockjoin_np(thread, result, clock, time)
    })
}

/// Nobody will join the thread.
fn detaching(thread: usize) {
    if let Some(handle) = Handle::take(thread) {
        handle.detached.store(1, Ordering::Release);
        if handle.end.load(Ordering::Acquire) != 0 {
            handle.release();
        }
    }
}

unsafe extern "C-unwind" fn detach(thread: usize, _pc: u64) -> i32 {
    detaching(thread);
    // SAFETY: the program's own call.
    unsafe { real::pthread_detach(thread) }
}

/// Writes a thread's name down, of which Linux keeps 15 bytes.
unsafe extern "C-unwind" fn set_name(thread: usize, name: *const c_char, pc: u64) -> i32 {
    // SAFETY: the program's own call.
    let result = unsafe { real::pthread_setname_np(thread, name) };
    if result == 0 {
        // SAFETY: libc has just read it as a string, of no more than 15 bytes.
        let text = unsafe { CStr::from_ptr(name) }.to_bytes();
        let mut bytes = [0; 16];
        let len = text.len().min(15);
        bytes[..len].copy_from_slice(&text[..len]);
        named(thread, u128::from_le_bytes(bytes), pc);
    }
    result
}

fn named(name: usize, text: u128, pc: u64) {
    let Some(thread) = thread::current() else {
        return;
    };
    // SAFETY: it has no conditions.
    let number = if name == unsafe { pthread_self() } {
        Some(thread.number())
    } else {
        let found = TABLE
            .iter()
            .find(|handle| handle.thread.load(Ordering::Acquire) == name);
        found.map(|handle| handle.number.load(Ordering::Relaxed))
    };
    if let Some(number) = number {
        thread.work(|| {
            let first = first_word(Kind::ThreadName, 0, number);
            let [low, high] = [text as u64, (text >> 64) as u64];
            thread.append_name([first, second_word(0, pc), low, high]);
        });
    }
}

/// A thread of C11 is one of POSIX whose routine returns an `int`, which is the lower half of the
/// register that a pointer would be in.
unsafe extern "C-unwind" fn c11_create(
    thread: *mut usize,
    routine: StartRoutine,
    argument: *mut c_void,
    pc: u64,
) -> i32 {
    const ENOMEM: i32 = 12;
    const THRD_ERROR: i32 = 2;
    const THRD_NOMEM: i32 = 3;
    // SAFETY: the program's own call.
    match unsafe { create(thread, 0, routine, argument, pc) } {
        0 => 0,
        ENOMEM => THRD_NOMEM,
        _ => THRD_ERROR,
    }
}

unsafe extern "C-unwind" fn c11_join(thread: usize, result: usize, pc: u64) -> i32 {
    // SAFETY: the program's own call.
    joining(thread, pc, || unsafe { real::thrd_join(thread, result) })
}

unsafe extern "C-unwind" fn c11_detach(thread: usize, _pc: u64) -> i32 {
    detaching(thread);
    // SAFETY: the program's own call.
    unsafe { real::thrd_detach(thread) }
}

exported_with_caller! {
    "rcx" thrd_create => c11_create;
    "rdx" thrd_join => c11_join;
    "rsi" thrd_detach => c11_detach;
    "r8" pthread_create => create;
    "rdx" pthread_join => join;
    "rdx" pthread_tryjoin_np => tryjoin;
    "rcx" pthread_timedjoin_np => timedjoin;
    "r8" pthread_clockjoin_np => clockjoin;
    "rsi" pthread_detach => detach;
    "rdx" pthread_setname_np => set_name;
}

/// Others may run while this thread pauses.
fn pausing(pc: u64, _first: usize) {
    locks::step(Kind::Yield, 0, pc);
}

exported_before! {
    pausing:
        sleep usleep nanosleep clock_nanosleep thrd_sleep pause sigsuspend
        sched_yield pthread_yield thrd_yield;
}
