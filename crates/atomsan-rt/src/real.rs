//! The functions of libc that we stand in front of.
//!
//! All are `C-unwind`: cancelling a thread unwinds it through some of them.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// A function that is looked up when it is first called.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Real {
    /// The function with this name, which must end with a zero byte.
    pub(crate) const fn named(name: &'static str) -> Real {
        Real {
            name: match CStr::from_bytes_with_nul(name.as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
            address: AtomicUsize::new(0),
        }
    }

    /// Its address in the next library that has it.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            address => address,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        const NEXT: *mut c_void = -1isize as *mut c_void;
        // SAFETY: both take strings that end with a zero byte. Condition variables have had
        // another layout before this version, and the old functions still exist.
        let address = unsafe {
            let newer = dlvsym(NEXT, self.name.as_ptr(), c"GLIBC_2.3.2".as_ptr());
            if newer.is_null() {
                dlsym(NEXT, self.name.as_ptr())
            } else {
                newer
            }
        } as usize;
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Which signals a thread does not get that is started with these attributes, if they say so. Older libraries cannot be asked,
/// and have no such thing.
///
/// # Safety
/// They must be attributes of threads.
pub(crate) unsafe fn signals_of(attributes: usize) -> Option<[u64; 16]> {
    type Get = unsafe extern "C-unwind" fn(usize, *mut [u64; 16]) -> i32;
    static REAL: Real = Real::named("pthread_attr_getsigmask_np\0");
    if attributes == 0 || REAL.address() == 0 {
        return None;
    }
    let mut set = [0; 16];
    // SAFETY: libc's function has this signature, and writes a set of signals, which has 128 bytes.
    let has_none =
        unsafe { core::mem::transmute::<usize, Get>(REAL.address())(attributes, &mut set) };
    (has_none == 0).then_some(set)
}

macro_rules! real {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// libc's own.
        ///
        /// # Safety
        /// As the function of that name. The name must exist in libc, which all of these do.
        #[inline]
        pub(crate) unsafe fn $name($($arg: $type),*) -> $result {
            static REAL: Real = Real::named(concat!(stringify!($name), "\0"));
            // SAFETY: libc's function of this name has this signature.
            unsafe {
                core::mem::transmute::<usize, unsafe extern "C-unwind" fn($($type),*) -> $result>(
                    REAL.address(),
                )($($arg),*)
            }
        }
    )*};
}

/// What a new thread runs.
pub(crate) type StartRoutine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

real! {
    fn pthread_mutex_lock(mutex: usize) -> i32;
    fn pthread_mutex_trylock(mutex: usize) -> i32;
    fn pthread_mutex_timedlock(mutex: usize, time: usize) -> i32;
    fn pthread_mutex_clocklock(mutex: usize, clock: i32, time: usize) -> i32;
    fn pthread_mutex_unlock(mutex: usize) -> i32;
    fn pthread_spin_lock(lock: usize) -> i32;
    fn pthread_spin_trylock(lock: usize) -> i32;
    fn pthread_spin_unlock(lock: usize) -> i32;
    fn pthread_rwlock_rdlock(lock: usize) -> i32;
    fn pthread_rwlock_tryrdlock(lock: usize) -> i32;
    fn pthread_rwlock_timedrdlock(lock: usize, time: usize) -> i32;
    fn pthread_rwlock_clockrdlock(lock: usize, clock: i32, time: usize) -> i32;
    fn pthread_rwlock_wrlock(lock: usize) -> i32;
    fn pthread_rwlock_trywrlock(lock: usize) -> i32;
    fn pthread_rwlock_timedwrlock(lock: usize, time: usize) -> i32;
    fn pthread_rwlock_clockwrlock(lock: usize, clock: i32, time: usize) -> i32;
    fn pthread_rwlock_unlock(lock: usize) -> i32;
    fn pthread_cond_wait(condition: usize, mutex: usize) -> i32;
    fn pthread_cond_timedwait(condition: usize, mutex: usize, time: usize) -> i32;
    fn pthread_cond_clockwait(condition: usize, mutex: usize, clock: i32, time: usize) -> i32;
    fn pthread_cond_signal(condition: usize) -> i32;
    fn pthread_cond_broadcast(condition: usize) -> i32;
    fn pthread_barrier_wait(barrier: usize) -> i32;
    fn sem_wait(semaphore: usize) -> i32;
    fn sem_trywait(semaphore: usize) -> i32;
    fn sem_timedwait(semaphore: usize, time: usize) -> i32;
    fn sem_clockwait(semaphore: usize, clock: i32, time: usize) -> i32;
    fn sem_post(semaphore: usize) -> i32;
    fn pthread_once(once: usize, routine: unsafe extern "C-unwind" fn()) -> i32;
    fn pthread_create(thread: *mut usize, attributes: usize, routine: StartRoutine, argument: *mut c_void) -> i32;
    fn pthread_join(thread: usize, result: usize) -> i32;
    fn pthread_tryjoin_np(thread: usize, result: usize) -> i32;
    fn pthread_timedjoin_np(thread: usize, result: usize, time: usize) -> i32;
    fn pthread_clockjoin_np(thread: usize, result: usize, clock: i32, time: usize) -> i32;
    fn pthread_detach(thread: usize) -> i32;
    fn pthread_setname_np(thread: usize, name: *const c_char) -> i32;
    fn thrd_join(thread: usize, result: usize) -> i32;
    fn thrd_detach(thread: usize) -> i32;
    fn mtx_lock(mutex: usize) -> i32;
    fn mtx_trylock(mutex: usize) -> i32;
    fn mtx_timedlock(mutex: usize, time: usize) -> i32;
    fn mtx_unlock(mutex: usize) -> i32;
    fn cnd_wait(condition: usize, mutex: usize) -> i32;
    fn cnd_timedwait(condition: usize, mutex: usize, time: usize) -> i32;
    fn cnd_signal(condition: usize) -> i32;
    fn cnd_broadcast(condition: usize) -> i32;
    fn call_once(once: usize, routine: unsafe extern "C-unwind" fn()) -> ();
    fn mmap(address: usize, len: usize, protection: i32, flags: i32, file: i32, offset: i64) -> usize;
    fn munmap(address: usize, len: usize) -> i32;
    fn mremap(address: usize, old: usize, new: usize, flags: i32, to: usize) -> usize;
    fn memcmp(left: usize, right: usize, len: usize) -> i32;
    fn __cxa_guard_acquire(guard: usize) -> i32;
    fn __cxa_guard_release(guard: usize) -> ();
    fn __cxa_guard_abort(guard: usize) -> ();
}
