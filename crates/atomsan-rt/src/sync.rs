//! The atomic words that threads meet at: the processor's own.
//!
//! In tests each operation on them is a step: under the scheduler of [`crate::kernel`], another
//! thread may go on before it. The types have the layout of the real ones, so they may lie in
//! mapped memory and in statics, and the code that is tested is the code that runs in programs.

#[cfg(not(test))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
#[cfg(test)]
pub(crate) use stepping::{AtomicBool, AtomicU64, AtomicUsize, scheduled, step, yield_now};

#[cfg(test)]
mod stepping {
    use core::sync::atomic::Ordering;
    use std::cell::Cell;

    std::thread_local! {
        static SCHEDULED: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs `work` with the calling thread's operations being steps of a schedule.
    pub(crate) fn scheduled(work: impl FnOnce()) {
        struct Done;
        impl Drop for Done {
            fn drop(&mut self) {
                SCHEDULED.set(false);
            }
        }
        SCHEDULED.set(true);
        let _done = Done;
        work();
    }

    /// Another thread may go on here.
    pub(crate) fn step() {
        if SCHEDULED.get() && !std::thread::panicking() {
            shuttle::thread::sleep(std::time::Duration::ZERO);
        }
    }

    /// Another thread should go on here; whether somebody decides that.
    pub(crate) fn yield_now() -> bool {
        let scheduled = SCHEDULED.get();
        if scheduled {
            shuttle::thread::yield_now();
        }
        scheduled
    }

    macro_rules! atomic {
        ($($name:ident: $value:ty { $($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)* })*) => {$(
            #[repr(transparent)]
            pub(crate) struct $name(core::sync::atomic::$name);

            impl $name {
                pub(crate) const fn new(value: $value) -> $name {
                    $name(core::sync::atomic::$name::new(value))
                }

                $(pub(crate) fn $method(&self, $($argument: $type),*) -> $result {
                    step();
                    self.0.$method($($argument),*)
                })*
            }
        )*};
    }

    atomic! {
        AtomicBool: bool {
            load(order: Ordering) -> bool;
            store(value: bool, order: Ordering) -> ();
            swap(value: bool, order: Ordering) -> bool;
        }
        AtomicUsize: usize {
            load(order: Ordering) -> usize;
            store(value: usize, order: Ordering) -> ();
            fetch_add(value: usize, order: Ordering) -> usize;
            fetch_sub(value: usize, order: Ordering) -> usize;
        }
        AtomicU64: u64 {
            load(order: Ordering) -> u64;
            store(value: u64, order: Ordering) -> ();
            swap(value: u64, order: Ordering) -> u64;
            fetch_add(value: u64, order: Ordering) -> u64;
            fetch_sub(value: u64, order: Ordering) -> u64;
            fetch_and(value: u64, order: Ordering) -> u64;
            fetch_max(value: u64, order: Ordering) -> u64;
            compare_exchange(old: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
            compare_exchange_weak(old: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
        }
    }
}
