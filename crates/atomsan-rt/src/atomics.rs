//! The instrumentation ABI: atomic operations, which are performed here, together with their
//! recording (see [`crate::ownership::atomic`]).
//!
//! The granule's lock makes each operation at least as strong as the program asked for; a
//! relaxed operation of the program orders no less here than it has to.

use crate::format::{ADDED, MASKED};
use crate::ownership::{self, Outcome};
use crate::platform::exported_with_caller;
use crate::{platform, start, thread};
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// An integer that atomic operations work on.
trait Value: Copy + PartialEq {
    const SIZE: usize;
    /// What the log keeps of it.
    fn logged(self) -> u64;
    /// Sums, differences and bit operations, by number.
    fn combine<const OP: u8>(self, other: Self) -> Self;
    /// Loads.
    ///
    /// # Safety
    /// `at` must be valid for atomic access, as for all functions of this trait.
    unsafe fn load(at: *mut Self) -> Self;
    /// Exchanges `old` by `new`, if it is there; what was there.
    ///
    /// # Safety
    /// As [`Value::load`].
    unsafe fn compare_exchange(at: *mut Self, old: Self, new: Self) -> Self;
    /// Combines the value with another one; what was there.
    ///
    /// # Safety
    /// As [`Value::load`].
    #[inline(always)]
    unsafe fn fetch<const OP: u8>(at: *mut Self, other: Self) -> Self {
        // SAFETY: the caller vouches for the address.
        unsafe {
            let mut old = Self::load(at);
            loop {
                let found = Self::compare_exchange(at, old, old.combine::<OP>(other));
                if found == old {
                    return old;
                }
                old = found;
            }
        }
    }
}

const ADD: u8 = 0;
const SUB: u8 = 1;
const AND: u8 = 2;
const OR: u8 = 3;
const XOR: u8 = 4;
const NAND: u8 = 5;
const EXCHANGE: u8 = 6;
const UNSIGNED_MAX: u8 = 7;
const UNSIGNED_MIN: u8 = 8;
const SIGNED_MAX: u8 = 9;
const SIGNED_MIN: u8 = 10;

/// What the log says of an operation.
const fn detail(operation: u8) -> u16 {
    match operation {
        ADD | SUB => ADDED,
        AND | OR | XOR => MASKED,
        _ => 0,
    }
}

macro_rules! combine {
    ($signed:ty) => {
        fn logged(self) -> u64 {
            self as u64
        }
        #[inline(always)]
        fn combine<const OP: u8>(self, other: Self) -> Self {
            match OP {
                ADD => self.wrapping_add(other),
                SUB => self.wrapping_sub(other),
                AND => self & other,
                OR => self | other,
                XOR => self ^ other,
                NAND => !(self & other),
                UNSIGNED_MAX => self.max(other),
                UNSIGNED_MIN => self.min(other),
                SIGNED_MAX => (self as $signed).max(other as $signed) as Self,
                SIGNED_MIN => (self as $signed).min(other as $signed) as Self,
                _ => other,
            }
        }
    };
}

macro_rules! native {
    ($($integer:ident $signed:ident $atomic:ident;)*) => {$(
        impl Value for $integer {
            const SIZE: usize = size_of::<$integer>();
            combine!($signed);
            #[inline(always)]
            unsafe fn load(at: *mut Self) -> Self {
                // SAFETY: the caller vouches for the address.
                unsafe { $atomic::from_ptr(at) }.load(SeqCst)
            }
            #[inline(always)]
            unsafe fn compare_exchange(at: *mut Self, old: Self, new: Self) -> Self {
                // SAFETY: the caller vouches for the address.
                let atomic = unsafe { $atomic::from_ptr(at) };
                atomic.compare_exchange(old, new, SeqCst, SeqCst).unwrap_or_else(|found| found)
            }
            #[inline(always)]
            unsafe fn fetch<const OP: u8>(at: *mut Self, other: Self) -> Self {
                // SAFETY: the caller vouches for the address.
                let atomic = unsafe { $atomic::from_ptr(at) };
                match OP {
                    ADD => atomic.fetch_add(other, SeqCst),
                    SUB => atomic.fetch_sub(other, SeqCst),
                    EXCHANGE => atomic.swap(other, SeqCst),
                    _ => match atomic.fetch_update(SeqCst, SeqCst, |old| Some(old.combine::<OP>(other))) {
                        Ok(old) | Err(old) => old,
                    },
                }
            }
        }
    )*};
}

native! {
    u8 i8 AtomicU8;
    u16 i16 AtomicU16;
    u32 i32 AtomicU32;
    u64 i64 AtomicU64;
}

impl Value for u128 {
    const SIZE: usize = 16;
    combine!(i128);
    unsafe fn load(at: *mut Self) -> Self {
        // SAFETY: the caller vouches for the address. Memory that a program loads 16 bytes from
        // atomically is writable: all compilers do it with this instruction.
        unsafe { platform::compare_exchange_16(at, 0, 0) }
    }
    unsafe fn compare_exchange(at: *mut Self, old: Self, new: Self) -> Self {
        // SAFETY: the caller vouches for the address.
        unsafe { platform::compare_exchange_16(at, old, new) }
    }
}

/// Performs an operation, recorded if the thread is.
#[inline(always)]
fn perform<V: Value, R>(
    at: *mut V,
    may_write: bool,
    pc: u64,
    operation: impl Fn() -> (R, Outcome),
) -> R {
    let again = |thread| ownership::atomic_again(thread, at as usize, V::SIZE, pc, &operation);
    if may_write
        && let Some(thread) = thread::recorded()
        && let Some(result) = again(thread)
    {
        thread.end_turn();
        start::noise(pc);
        return result;
    }
    if let Some(thread) = thread::current() {
        let recorded = thread.work(|| {
            if thread.ignoring.get() > 0 {
                return ownership::unseen_atomic(thread, at as usize, || operation().0);
            }
            ownership::atomic(thread, at as usize, V::SIZE, may_write, pc, &operation)
        });
        if let Some(result) = recorded {
            thread.end_turn();
            start::noise(pc);
            return result;
        }
    }
    operation().0
}

unsafe extern "C-unwind" fn load<V: Value>(at: *mut V, _order: i32, pc: u64) -> V {
    if thread::recorded().is_some_and(|thread| thread.means_nothing(pc)) {
        // SAFETY: the program asks for this very operation.
        return unsafe { V::load(at) };
    }
    perform(at, false, pc, || {
        // SAFETY: the program asks for this very operation.
        let value = unsafe { V::load(at) };
        (value, Outcome::Load(value.logged()))
    })
}

unsafe extern "C-unwind" fn store<V: Value>(at: *mut V, value: V, _order: i32, pc: u64) {
    perform(at, true, pc, || {
        // SAFETY: the program asks for this very operation.
        unsafe { V::fetch::<EXCHANGE>(at, value) };
        ((), Outcome::Store(value.logged()))
    });
}

unsafe extern "C-unwind" fn rmw<V: Value, const OP: u8>(
    at: *mut V,
    value: V,
    _order: i32,
    pc: u64,
) -> V {
    perform(at, true, pc, || {
        // SAFETY: the program asks for this very operation.
        let old = unsafe { V::fetch::<OP>(at, value) };
        let new = old.combine::<OP>(value);
        (old, Outcome::Rmw(old.logged(), new.logged(), detail(OP)))
    })
}

/// The last argument takes the place of the second order: LLVM's form, which returns what it
/// found.
unsafe extern "C-unwind" fn compare_exchange_val<V: Value>(
    at: *mut V,
    old: V,
    new: V,
    pc: u64,
) -> V {
    perform(at, true, pc, || {
        // SAFETY: the program asks for this very operation.
        let found = unsafe { V::compare_exchange(at, old, new) };
        let outcome = if found == old {
            Outcome::Swapped(old.logged(), new.logged())
        } else {
            Outcome::Failed(found.logged())
        };
        (found, outcome)
    })
}

/// gcc's form, which returns whether it succeeded and writes what it found if not.
unsafe extern "C-unwind" fn compare_exchange<V: Value>(
    at: *mut V,
    old: *mut V,
    new: V,
    pc: u64,
) -> i32 {
    // SAFETY: the program asks for this very operation; the expected value is its own.
    unsafe {
        let expected = old.read();
        let found = compare_exchange_val(at, expected, new, pc);
        if found != expected {
            old.write(found);
        }
        i32::from(found == expected)
    }
}

/// Hands the caller's address on as the fourth argument, over the first order: both forms of
/// compare-exchange have it there.
macro_rules! exported {
    ($value:ty, $load:ident $store:ident $exchange:ident $add:ident $sub:ident $and:ident $or:ident $xor:ident
     $nand:ident $max:ident $min:ident $umax:ident $umin:ident $strong:ident $weak:ident $val:ident) => {
        exported_with_caller! {
            "rdx" $load => load::<$value>;
            "rcx" $store => store::<$value>;
            "rcx" $exchange => rmw::<$value, EXCHANGE>;
            "rcx" $add => rmw::<$value, ADD>;
            "rcx" $sub => rmw::<$value, SUB>;
            "rcx" $and => rmw::<$value, AND>;
            "rcx" $or => rmw::<$value, OR>;
            "rcx" $xor => rmw::<$value, XOR>;
            "rcx" $nand => rmw::<$value, NAND>;
            "rcx" $max => rmw::<$value, SIGNED_MAX>;
            "rcx" $min => rmw::<$value, SIGNED_MIN>;
            "rcx" $umax => rmw::<$value, UNSIGNED_MAX>;
            "rcx" $umin => rmw::<$value, UNSIGNED_MIN>;
            "rcx" $strong => compare_exchange::<$value>;
            "rcx" $weak => compare_exchange::<$value>;
            "rcx" $val => compare_exchange_val::<$value>;
        }
    };
}

exported!(u8, __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_fetch_add
    __tsan_atomic8_fetch_sub __tsan_atomic8_fetch_and __tsan_atomic8_fetch_or __tsan_atomic8_fetch_xor
    __tsan_atomic8_fetch_nand __tsan_atomic8_fetch_max __tsan_atomic8_fetch_min __tsan_atomic8_fetch_umax
    __tsan_atomic8_fetch_umin __tsan_atomic8_compare_exchange_strong __tsan_atomic8_compare_exchange_weak
    __tsan_atomic8_compare_exchange_val);
exported!(u16, __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange __tsan_atomic16_fetch_add
    __tsan_atomic16_fetch_sub __tsan_atomic16_fetch_and __tsan_atomic16_fetch_or __tsan_atomic16_fetch_xor
    __tsan_atomic16_fetch_nand __tsan_atomic16_fetch_max __tsan_atomic16_fetch_min __tsan_atomic16_fetch_umax
    __tsan_atomic16_fetch_umin __tsan_atomic16_compare_exchange_strong __tsan_atomic16_compare_exchange_weak
    __tsan_atomic16_compare_exchange_val);
exported!(u32, __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_fetch_add
    __tsan_atomic32_fetch_sub __tsan_atomic32_fetch_and __tsan_atomic32_fetch_or __tsan_atomic32_fetch_xor
    __tsan_atomic32_fetch_nand __tsan_atomic32_fetch_max __tsan_atomic32_fetch_min __tsan_atomic32_fetch_umax
    __tsan_atomic32_fetch_umin __tsan_atomic32_compare_exchange_strong __tsan_atomic32_compare_exchange_weak
    __tsan_atomic32_compare_exchange_val);
exported!(u64, __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_fetch_add
    __tsan_atomic64_fetch_sub __tsan_atomic64_fetch_and __tsan_atomic64_fetch_or __tsan_atomic64_fetch_xor
    __tsan_atomic64_fetch_nand __tsan_atomic64_fetch_max __tsan_atomic64_fetch_min __tsan_atomic64_fetch_umax
    __tsan_atomic64_fetch_umin __tsan_atomic64_compare_exchange_strong __tsan_atomic64_compare_exchange_weak
    __tsan_atomic64_compare_exchange_val);

unsafe extern "C-unwind" fn wide_compare_exchange_val(
    at: *mut u128,
    old: u128,
    new: u128,
    pc: u64,
) -> u128 {
    // SAFETY: the program asks for this very operation.
    unsafe { compare_exchange_val(at, old, new, pc) }
}

unsafe extern "C-unwind" fn wide_compare_exchange_ptr(
    at: *mut u128,
    old: *mut u128,
    new: u128,
    _order: i32,
    pc: u64,
) -> i32 {
    // SAFETY: the program asks for this very operation.
    unsafe { compare_exchange(at, old, new, pc) }
}

// A 16-byte argument takes two registers, so the caller's address goes one further.
exported_with_caller! {
    "rdx" __tsan_atomic128_load => load::<u128>;
    "r8" __tsan_atomic128_store => store::<u128>;
    "r8" __tsan_atomic128_exchange => rmw::<u128, EXCHANGE>;
    "r8" __tsan_atomic128_fetch_add => rmw::<u128, ADD>;
    "r8" __tsan_atomic128_fetch_sub => rmw::<u128, SUB>;
    "r8" __tsan_atomic128_fetch_and => rmw::<u128, AND>;
    "r8" __tsan_atomic128_fetch_or => rmw::<u128, OR>;
    "r8" __tsan_atomic128_fetch_xor => rmw::<u128, XOR>;
    "r8" __tsan_atomic128_fetch_nand => rmw::<u128, NAND>;
    "r8" __tsan_atomic128_fetch_max => rmw::<u128, SIGNED_MAX>;
    "r8" __tsan_atomic128_fetch_min => rmw::<u128, SIGNED_MIN>;
    "r8" __tsan_atomic128_fetch_umax => rmw::<u128, UNSIGNED_MAX>;
    "r8" __tsan_atomic128_fetch_umin => rmw::<u128, UNSIGNED_MIN>;
    "r9" __tsan_atomic128_compare_exchange_strong => wide_compare_exchange_ptr;
    "r9" __tsan_atomic128_compare_exchange_weak => wide_compare_exchange_ptr;
    "r9" __tsan_atomic128_compare_exchange_val => wide_compare_exchange_val;
}

/// Orders the program's own accesses; the recording has its own order.
#[cfg(not(test))]
// SAFETY: the name belongs to the instrumentation ABI that this library implements.
#[unsafe(no_mangle)]
extern "C-unwind" fn __tsan_atomic_thread_fence(_order: i32) {
    core::sync::atomic::fence(SeqCst);
}

/// Orders a thread with its own signal handlers.
#[cfg(not(test))]
// SAFETY: the name belongs to the instrumentation ABI that this library implements.
#[unsafe(no_mangle)]
extern "C-unwind" fn __tsan_atomic_signal_fence(_order: i32) {
    core::sync::atomic::compiler_fence(SeqCst);
}
