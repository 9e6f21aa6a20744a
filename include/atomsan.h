/* What a C or C++ program may tell AtomicitySanitizer in its own source.
 *
 * `atomsan cc` and `atomsan c++` have this header on the include path. In a build without
 * -fsanitize=thread (which they add) everything here is nothing; in a program that runs under
 * another runtime the weak symbols are missing, and nothing is called.
 *
 *   ATOMSAN_ATOMIC("name") { ... }      the block should be atomic; it may be left in any way but longjmp
 *   ATOMSAN_ATOMIC_FUNCTION;            as the first statement of a function that should be atomic
 *   ATOMSAN_BEGIN("name"); ATOMSAN_END();   the same, where it starts and ends is up to the program
 *   ATOMSAN_NOT_ATOMIC();               as the first statement of a function that need not be atomic
 *   ATOMSAN_YIELD();                    others may interfere here: open regions end, and others start
 *   ATOMSAN_SET("name", &a, sizeof a);  a new atomic set with this place in it (engine `marathon`)
 *   ATOMSAN_SET_MORE("name", &b, sizeof b);   one more place of the set that this thread made last
 *
 * Names must live as long as the program: string literals do.
 *
 * Synchronisation that the program has made itself is announced with ThreadSanitizer's functions:
 *
 *   ATOMSAN_RELEASE(&x), ATOMSAN_ACQUIRE(&x)     who acquires comes after all who have released
 *   ATOMSAN_LOCKING(&m, shared), ATOMSAN_LOCKED(&m, shared)       around taking a lock
 *   ATOMSAN_UNLOCKING(&m, shared), ATOMSAN_UNLOCKED(&m, shared)   around giving it back
 */
#ifndef ATOMSAN_H
#define ATOMSAN_H

#include <stddef.h>

#if defined(__SANITIZE_THREAD__)
#define ATOMSAN_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ATOMSAN_CHECKED 1
#endif
#endif
#ifndef ATOMSAN_CHECKED
#define ATOMSAN_CHECKED 0
#endif

#if ATOMSAN_CHECKED

#ifdef __cplusplus
extern "C" {
#endif
#define ATOMSAN_WEAK_ __attribute__((__weak__))
ATOMSAN_WEAK_ void __atomsan_begin(const char *name);
ATOMSAN_WEAK_ void __atomsan_end(void);
ATOMSAN_WEAK_ void __atomsan_yield(void);
ATOMSAN_WEAK_ void __atomsan_set(const char *name, size_t name_length, const volatile void *place,
                                 size_t length, unsigned first);
ATOMSAN_WEAK_ void __tsan_acquire(void *address);
ATOMSAN_WEAK_ void __tsan_release(void *address);
ATOMSAN_WEAK_ void __tsan_mutex_pre_lock(void *mutex, unsigned flags);
ATOMSAN_WEAK_ void __tsan_mutex_post_lock(void *mutex, unsigned flags, int recursion);
ATOMSAN_WEAK_ int __tsan_mutex_pre_unlock(void *mutex, unsigned flags);
ATOMSAN_WEAK_ void __tsan_mutex_post_unlock(void *mutex, unsigned flags);
#undef ATOMSAN_WEAK_
#ifdef __cplusplus
}
#endif

/* Not instrumented, so that it is no function of the program's. */
#if defined(__clang__)
__attribute__((__unused__, __noinline__, __no_sanitize__("thread"), __disable_sanitizer_instrumentation__))
#else
__attribute__((__unused__, __noinline__, __no_sanitize_thread__))
#endif
static void atomsan_close_(const int *unused)
{
    (void)unused;
    if (__atomsan_end)
        __atomsan_end();
}

#ifdef __cplusplus
#define ATOMSAN_NAME_ __PRETTY_FUNCTION__
#else
#define ATOMSAN_NAME_ __func__
#endif

#define ATOMSAN_BEGIN(name) (__atomsan_begin ? __atomsan_begin(name) : (void)0)
#define ATOMSAN_END() (__atomsan_end ? __atomsan_end() : (void)0)
#define ATOMSAN_ATOMIC(name)                                                                       \
    for (int atomsan_once_ __attribute__((__cleanup__(atomsan_close_))) = (ATOMSAN_BEGIN(name), 1); \
         atomsan_once_; atomsan_once_ = 0)
#define ATOMSAN_ATOMIC_FUNCTION                                                                    \
    int atomsan_function_ __attribute__((__unused__, __cleanup__(atomsan_close_))) =               \
        (ATOMSAN_BEGIN(ATOMSAN_NAME_), 1)
/* The place is written down in a section that the checker reads. */
#define ATOMSAN_NOT_ATOMIC()                                                                       \
    __asm__ __volatile__("771: nop\n\t.pushsection atomsan_not_atomic, \"aR\", @progbits\n\t"           \
                         ".long 771b - .\n\t.popsection")
#define ATOMSAN_YIELD() (__atomsan_yield ? __atomsan_yield() : (void)0)
#define ATOMSAN_SET(name, place, length)                                                           \
    (__atomsan_set ? __atomsan_set(name, 0, place, length, 1) : (void)0)
#define ATOMSAN_SET_MORE(name, place, length)                                                      \
    (__atomsan_set ? __atomsan_set(name, 0, place, length, 0) : (void)0)

#define ATOMSAN_ACQUIRE(address) (__tsan_acquire ? __tsan_acquire((void *)(address)) : (void)0)
#define ATOMSAN_RELEASE(address) (__tsan_release ? __tsan_release((void *)(address)) : (void)0)
/* ThreadSanitizer's flag for a shared hold. */
#define ATOMSAN_SHARED_(shared) ((shared) ? 1u << 3 : 0u)
#define ATOMSAN_LOCKING(mutex, shared)                                                             \
    (__tsan_mutex_pre_lock ? __tsan_mutex_pre_lock((void *)(mutex), ATOMSAN_SHARED_(shared)) : (void)0)
#define ATOMSAN_LOCKED(mutex, shared)                                                              \
    (__tsan_mutex_post_lock ? __tsan_mutex_post_lock((void *)(mutex), ATOMSAN_SHARED_(shared), 0)  \
                            : (void)0)
#define ATOMSAN_UNLOCKING(mutex, shared)                                                           \
    (__tsan_mutex_pre_unlock                                                                       \
         ? (void)__tsan_mutex_pre_unlock((void *)(mutex), ATOMSAN_SHARED_(shared))                 \
         : (void)0)
#define ATOMSAN_UNLOCKED(mutex, shared)                                                            \
    (__tsan_mutex_post_unlock ? __tsan_mutex_post_unlock((void *)(mutex), ATOMSAN_SHARED_(shared)) \
                              : (void)0)

#else

#define ATOMSAN_BEGIN(name) ((void)0)
#define ATOMSAN_END() ((void)0)
#define ATOMSAN_ATOMIC(name) for (int atomsan_once_ = 1; atomsan_once_; atomsan_once_ = 0)
#define ATOMSAN_ATOMIC_FUNCTION ((void)0)
#define ATOMSAN_NOT_ATOMIC() ((void)0)
#define ATOMSAN_YIELD() ((void)0)
#define ATOMSAN_SET(name, place, length) ((void)0)
#define ATOMSAN_SET_MORE(name, place, length) ((void)0)
#define ATOMSAN_ACQUIRE(address) ((void)0)
#define ATOMSAN_RELEASE(address) ((void)0)
#define ATOMSAN_LOCKING(mutex, shared) ((void)0)
#define ATOMSAN_LOCKED(mutex, shared) ((void)0)
#define ATOMSAN_UNLOCKING(mutex, shared) ((void)0)
#define ATOMSAN_UNLOCKED(mutex, shared) ((void)0)

#endif
#endif
