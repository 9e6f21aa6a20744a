/* The empty runtime: every hook of the instrumentation returns at once, and atomic operations are performed.
   What a program costs with it is the floor of any checker that has this instrumentation. */
#include <stdint.h>
#include <string.h>

#define HOOK(name) void name(void *address) { (void)address; }
#define SIZES(prefix) HOOK(prefix##1) HOOK(prefix##2) HOOK(prefix##4) HOOK(prefix##8) HOOK(prefix##16)
SIZES(__tsan_read)
SIZES(__tsan_write)
SIZES(__tsan_read_write)
SIZES(__tsan_unaligned_read)
SIZES(__tsan_unaligned_write)
SIZES(__tsan_unaligned_read_write)
SIZES(__tsan_volatile_read)
SIZES(__tsan_volatile_write)
SIZES(__tsan_unaligned_volatile_read)
SIZES(__tsan_unaligned_volatile_write)
HOOK(__tsan_func_entry)
HOOK(__tsan_vptr_read)
void __tsan_init(void) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void *address, void *value) { (void)address, (void)value; }
void __tsan_read_range(void *address, uintptr_t size) { (void)address, (void)size; }
void __tsan_write_range(void *address, uintptr_t size) { (void)address, (void)size; }
void *__tsan_memcpy(void *to, const void *from, uintptr_t size) { return memcpy(to, from, size); }
void *__tsan_memmove(void *to, const void *from, uintptr_t size) { return memmove(to, from, size); }
void *__tsan_memset(void *to, int byte, uintptr_t size) { return memset(to, byte, size); }
void atomsan_wrap_before(uint32_t what, uintptr_t first, uintptr_t second, uint64_t pc) { (void)what, (void)first, (void)second, (void)pc; }
void atomsan_wrap_after(uint32_t what, uintptr_t first, uintptr_t second, uint64_t pc) { (void)what, (void)first, (void)second, (void)pc; }

#define FETCH(bits, type, name) \
    type __tsan_atomic##bits##_fetch_##name(volatile type *at, type value, int order) { (void)order; return __atomic_fetch_##name(at, value, __ATOMIC_SEQ_CST); }
#define ATOMIC(bits, type) \
    type __tsan_atomic##bits##_load(const volatile type *at, int order) { (void)order; return __atomic_load_n(at, __ATOMIC_SEQ_CST); } \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order) { (void)order; __atomic_store_n(at, value, __ATOMIC_SEQ_CST); } \
    type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order) { (void)order; return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST); } \
    FETCH(bits, type, add) FETCH(bits, type, sub) FETCH(bits, type, and) FETCH(bits, type, or) FETCH(bits, type, xor) FETCH(bits, type, nand) \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *old, type new, int order, int failure) { (void)order, (void)failure; return __atomic_compare_exchange_n(at, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); } \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *old, type new, int order, int failure) { (void)order, (void)failure; return __atomic_compare_exchange_n(at, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); } \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type old, type new, int order, int failure) { (void)order, (void)failure; __atomic_compare_exchange_n(at, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); return old; }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
void __tsan_atomic_thread_fence(int order) { (void)order; __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int order) { (void)order; __atomic_signal_fence(__ATOMIC_SEQ_CST); }
