/* Every kind of access that a compiler announces: what it calls must be in the runtime. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct odd {
    char bytes[3];
    char more[24];
} __attribute__((packed));

struct unaligned {
    char first;
    int16_t two;
    int32_t four;
    int64_t eight;
    __int128 sixteen;
} __attribute__((packed));

extern struct odd odd_from, odd_to;
extern struct unaligned un;

#define PLAIN(type, name)                                                                          \
    void plain_##name(type *at, volatile type *vol, type value)                                    \
    {                                                                                              \
        *at += value;                                                                              \
        *vol = *vol + value;                                                                       \
    }
PLAIN(int8_t, 1)
PLAIN(int16_t, 2)
PLAIN(int32_t, 4)
PLAIN(int64_t, 8)
PLAIN(__int128, 16)

void unaligned(volatile struct unaligned *vol)
{
    un.two += 1;
    un.four += 1;
    un.eight += 1;
    un.sixteen += 1;
    vol->two += 1;
    vol->four += 1;
    vol->eight += 1;
}

void whole(void)
{
    odd_to = odd_from;
}

void memory(char *to, const char *from, size_t len)
{
    memcpy(to, from, len);
    memmove(to + 1, to, len);
    memset(to, 0, len);
}

#define ATOMIC(type, name)                                                                         \
    type atomic_##name(type *at, type old, type value)                                             \
    {                                                                                              \
        __atomic_store_n(at, value, __ATOMIC_RELEASE);                                             \
        value += __atomic_load_n(at, __ATOMIC_ACQUIRE);                                            \
        value += __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL);                                 \
        value += __atomic_fetch_add(at, value, __ATOMIC_RELAXED);                                  \
        value += __atomic_fetch_sub(at, value, __ATOMIC_RELAXED);                                  \
        value += __atomic_fetch_and(at, value, __ATOMIC_RELAXED);                                  \
        value += __atomic_fetch_or(at, value, __ATOMIC_RELAXED);                                   \
        value += __atomic_fetch_xor(at, value, __ATOMIC_RELAXED);                                  \
        value += __atomic_fetch_nand(at, value, __ATOMIC_RELAXED);                                 \
        value += __atomic_compare_exchange_n(at, &old, value, 0, __ATOMIC_SEQ_CST,                 \
                                             __ATOMIC_RELAXED);                                    \
        value += __atomic_compare_exchange_n(at, &old, value, 1, __ATOMIC_SEQ_CST,                 \
                                             __ATOMIC_RELAXED);                                    \
        value += __sync_val_compare_and_swap(at, old, value);                                      \
        return value;                                                                              \
    }
ATOMIC(uint8_t, 8)
ATOMIC(uint16_t, 16)
ATOMIC(uint32_t, 32)
ATOMIC(uint64_t, 64)
#ifdef WIDE
ATOMIC(unsigned __int128, 128)
#endif

int fences(char *flag)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return __atomic_test_and_set(flag, __ATOMIC_ACQUIRE);
}
