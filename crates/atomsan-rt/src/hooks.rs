//! The instrumentation ABI: plain accesses, function entry and exit, copies.
//!
//! The compilers call these in front of each access; all but the copies only announce it.
//! gcc, clang and rustc name the same things differently, and programs may call some by hand:
//! each name is one line here, or in [`fast`] if it is an access that is mostly settled in a dozen instructions.

mod calls;
mod fast;

use crate::platform::exported_with_caller;
use crate::{ownership, platform, thread};
use fast::plain;

extern "C-unwind" fn read_write<const SIZE: usize>(address: usize, pc: u64) {
    plain::<SIZE, false>(address, pc);
    plain::<SIZE, true>(address, pc);
}

extern "C-unwind" fn range<const WRITE: bool>(address: usize, len: usize, pc: u64) {
    if let Some(thread) = thread::current()
        && !thread.skips.get()
    {
        ownership::access_range(thread, address, len, WRITE, pc);
    }
}

/// A store of a vtable pointer that changes nothing is no store.
extern "C-unwind" fn vptr_update(address: usize, new: usize, pc: u64) {
    // SAFETY: the compiler calls this in front of a store of `new` to `address`.
    if unsafe { (address as *const usize).read() } != new {
        plain::<8, true>(address, pc);
    }
}

unsafe extern "C-unwind" fn copy(to: *mut u8, from: *const u8, len: usize, pc: u64) -> *mut u8 {
    range::<false>(from as usize, len, pc);
    range::<true>(to as usize, len, pc);
    // SAFETY: the program asks for this very copy.
    unsafe { platform::copy(to, from, len) };
    to
}

unsafe extern "C-unwind" fn fill(to: *mut u8, byte: i32, len: usize, pc: u64) -> *mut u8 {
    range::<true>(to as usize, len, pc);
    // SAFETY: the program asks for this very fill.
    unsafe { platform::fill(to, byte as u8, len) };
    to
}

exported_with_caller! {
    "rsi" __tsan_read16 => plain::<16, false>;
    "rsi" __tsan_write16 => plain::<16, true>;
    "rsi" __tsan_read_write1 => read_write::<1>;
    "rsi" __tsan_read_write2 => read_write::<2>;
    "rsi" __tsan_read_write4 => read_write::<4>;
    "rsi" __tsan_read_write8 => read_write::<8>;
    "rsi" __tsan_read_write16 => read_write::<16>;
    "rsi" __tsan_unaligned_read2 => plain::<2, false>;
    "rsi" __tsan_unaligned_read4 => plain::<4, false>;
    "rsi" __tsan_unaligned_read8 => plain::<8, false>;
    "rsi" __tsan_unaligned_read16 => plain::<16, false>;
    "rsi" __tsan_unaligned_write2 => plain::<2, true>;
    "rsi" __tsan_unaligned_write4 => plain::<4, true>;
    "rsi" __tsan_unaligned_write8 => plain::<8, true>;
    "rsi" __tsan_unaligned_write16 => plain::<16, true>;
    "rsi" __tsan_unaligned_read_write1 => read_write::<1>;
    "rsi" __tsan_unaligned_read_write2 => read_write::<2>;
    "rsi" __tsan_unaligned_read_write4 => read_write::<4>;
    "rsi" __tsan_unaligned_read_write8 => read_write::<8>;
    "rsi" __tsan_unaligned_read_write16 => read_write::<16>;
    "rsi" __tsan_volatile_read16 => plain::<16, false>;
    "rsi" __tsan_volatile_write16 => plain::<16, true>;
    "rsi" __tsan_unaligned_volatile_read2 => plain::<2, false>;
    "rsi" __tsan_unaligned_volatile_read4 => plain::<4, false>;
    "rsi" __tsan_unaligned_volatile_read8 => plain::<8, false>;
    "rsi" __tsan_unaligned_volatile_read16 => plain::<16, false>;
    "rsi" __tsan_unaligned_volatile_write2 => plain::<2, true>;
    "rsi" __tsan_unaligned_volatile_write4 => plain::<4, true>;
    "rsi" __tsan_unaligned_volatile_write8 => plain::<8, true>;
    "rsi" __tsan_unaligned_volatile_write16 => plain::<16, true>;
    "rsi" __tsan_vptr_read => plain::<8, false>;
    "rdx" __tsan_vptr_update => vptr_update;
    "rdx" __tsan_read_range => range::<false>;
    "rdx" __tsan_write_range => range::<true>;
    "rcx" __tsan_memcpy => copy;
    "rcx" __tsan_memmove => copy;
    "rcx" __tsan_memset => fill;
}

macro_rules! exported {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $body:block)*) => {$(
        #[cfg(not(test))]
        // SAFETY: the name belongs to the instrumentation ABI that this library implements.
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name($($arg: $type),*) $body
    )*};
}

exported! {
    fn __tsan_read1_pc(address: usize, pc: u64) { plain::<1, false>(address, pc); }
    fn __tsan_read2_pc(address: usize, pc: u64) { plain::<2, false>(address, pc); }
    fn __tsan_read4_pc(address: usize, pc: u64) { plain::<4, false>(address, pc); }
    fn __tsan_read8_pc(address: usize, pc: u64) { plain::<8, false>(address, pc); }
    fn __tsan_read16_pc(address: usize, pc: u64) { plain::<16, false>(address, pc); }
    fn __tsan_write1_pc(address: usize, pc: u64) { plain::<1, true>(address, pc); }
    fn __tsan_write2_pc(address: usize, pc: u64) { plain::<2, true>(address, pc); }
    fn __tsan_write4_pc(address: usize, pc: u64) { plain::<4, true>(address, pc); }
    fn __tsan_write8_pc(address: usize, pc: u64) { plain::<8, true>(address, pc); }
    fn __tsan_write16_pc(address: usize, pc: u64) { plain::<16, true>(address, pc); }
    fn __tsan_read_range_pc(address: usize, len: usize, pc: u64) { range::<false>(address, len, pc); }
    fn __tsan_write_range_pc(address: usize, len: usize, pc: u64) { range::<true>(address, len, pc); }
}
