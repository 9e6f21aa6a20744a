//! What a program may tell [AtomicitySanitizer](https://docs.rs/cargo-atomsan) in its own source.
//!
//! By default every function of the user's workspace is expected to be atomic, except the entry
//! points of threads. Annotations change that in place:
//!
//! | annotation | meaning |
//! |---|---|
//! | [`#[atomic]`](macro@atomic) | the function should be atomic, wherever it is called |
//! | [`atomic("name", \|\| …)`](fn@atomic), [`atomic_block!`] | what is inside should be atomic |
//! | [`#[not_atomic]`](macro@not_atomic) | the function need not be atomic |
//! | [`yield_point!`] | others may interfere here: every open region ends and another one starts |
//! | [`atomic_set!`] | these places belong together, for the engine `marathon` |
//!
//! `cargo atomsan` builds with `--cfg=atomsan`; in any other build all of these are nothing, not
//! even a call.
//!
//! ```
//! use std::sync::Mutex;
//!
//! #[atomsan::atomic]
//! fn withdraw(balance: &Mutex<i32>, amount: i32) -> bool {
//!     let mut balance = balance.lock().unwrap();
//!     if *balance < amount {
//!         return false;
//!     }
//!     *balance -= amount;
//!     true
//! }
//!
//! let balance = Mutex::new(10);
//! let twice = atomsan::atomic("twice", || withdraw(&balance, 3) && withdraw(&balance, 4));
//! atomsan::yield_point!();
//! assert!(twice && !withdraw(&balance, 5));
//! ```
#![no_std]

use core::marker::PhantomData;

/// The function is a region that should be atomic, also where it is the entry point of a thread or
/// lies outside of the user's workspace.
///
/// Its name is the function's path, or the string in `#[atomic("name")]`. A function that is
/// `async` or `const` cannot be marked: the pieces of an async function run on many threads.
///
/// ```compile_fail
/// #[atomsan::atomic]
/// async fn withdraw() {}
/// ```
pub use atomsan_macros::atomic;

/// The function is not expected to be atomic. What it calls still is.
///
/// ```
/// #[atomsan::not_atomic]
/// fn statistics(counters: &[std::sync::atomic::AtomicU64]) -> u64 {
///     counters.iter().map(|counter| counter.load(std::sync::atomic::Ordering::Relaxed)).sum()
/// }
/// assert_eq!(statistics(&[1.into(), 2.into()]), 3);
/// ```
pub use atomsan_macros::not_atomic;

#[cfg(atomsan)]
mod runtime {
    // The runtime that `cargo atomsan` links.
    unsafe extern "C-unwind" {
        pub(crate) safe fn __atomsan_begin_str(name: *const u8, len: usize);
        pub(crate) safe fn __atomsan_end();
        pub(crate) safe fn __atomsan_yield();
        pub(crate) safe fn __atomsan_set(
            name: *const u8,
            name_len: usize,
            place: *const u8,
            len: usize,
            first: u32,
        );
    }
}

/// A region that should be atomic: from [`Region::begin`] until it is dropped.
///
/// It belongs to the thread that began it.
#[derive(Debug)]
#[must_use = "a region ends when it is dropped"]
pub struct Region {
    of_this_thread: PhantomData<*const ()>,
}

impl Region {
    /// Begins a region.
    #[inline(always)]
    pub fn begin(name: &'static str) -> Region {
        #[cfg(atomsan)]
        runtime::__atomsan_begin_str(name.as_ptr(), name.len());
        #[cfg(not(atomsan))]
        let _ = name;
        Region {
            of_this_thread: PhantomData,
        }
    }
}

#[cfg(atomsan)]
impl Drop for Region {
    #[inline(always)]
    fn drop(&mut self) {
        runtime::__atomsan_end();
    }
}

/// Runs a closure as a region that should be atomic.
///
/// ```
/// let sum = atomsan::atomic("sum", || 1 + 2);
/// assert_eq!(sum, 3);
/// ```
#[inline(always)]
pub fn atomic<R>(name: &'static str, work: impl FnOnce() -> R) -> R {
    let _region = Region::begin(name);
    work()
}

/// A block that should be atomic; `return`, `?`, `break` and `continue` in it are those of the code
/// around it.
///
/// (It is not called `atomic!`, because an attribute and a macro cannot have the same name.)
///
/// ```
/// fn first_even(numbers: &[u32]) -> Option<u32> {
///     atomsan::atomic_block!("first_even", {
///         for &number in numbers {
///             if number % 2 == 0 {
///                 return Some(number);
///             }
///         }
///     });
///     None
/// }
/// assert_eq!(first_even(&[1, 4, 6]), Some(4));
/// ```
#[macro_export]
macro_rules! atomic_block {
    ($name:literal, $block:block) => {{
        let __atomsan_region = $crate::Region::begin($name);
        $block
    }};
}

/// Others may interfere here, and the code is right nevertheless: every region that is open on this
/// thread ends here, and another one of the same name starts.
///
/// ```
/// for _ in 0..3 {
///     atomsan::yield_point!();
/// }
/// ```
#[macro_export]
macro_rules! yield_point {
    () => {
        $crate::yield_point()
    };
}

/// See [`yield_point!`].
#[inline(always)]
pub fn yield_point() {
    #[cfg(atomsan)]
    runtime::__atomsan_yield();
}

/// The function that calls this is not expected to be atomic; see [`#[not_atomic]`](macro@not_atomic).
#[inline(always)]
pub fn not_atomic() {
    // The place is written down in a section that the checker reads, relative to where it is
    // written; an instruction that does nothing makes it a place of this function.
    //
    // SAFETY: nothing happens.
    #[cfg(atomsan)]
    unsafe {
        core::arch::asm!(
            "771: nop",
            ".pushsection atomsan_not_atomic, \"aR\", @progbits",
            ".long 771b - .",
            ".popsection",
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// These places are an atomic set: there is an invariant between them. For the engine `marathon`,
/// which by default takes each allocation and each static for a set.
///
/// To be called before threads share them, once for each instance.
///
/// ```
/// let (low, high) = (Box::new(1), Box::new(2));
/// atomsan::atomic_set!("bounds"; &*low, &*high);
/// ```
#[macro_export]
macro_rules! atomic_set {
    ($name:literal; $first:expr $(, $more:expr)* $(,)?) => {{
        $crate::member($name, $first, true);
        $($crate::member($name, $more, false);)*
    }};
}

/// One place of an [`atomic_set!`].
#[doc(hidden)]
#[inline(always)]
pub fn member<T: ?Sized>(name: &'static str, place: &T, first: bool) {
    #[cfg(atomsan)]
    runtime::__atomsan_set(
        name.as_ptr(),
        name.len(),
        core::ptr::from_ref(place).cast(),
        size_of_val(place),
        first.into(),
    );
    #[cfg(not(atomsan))]
    let _ = (name, place, first);
}
