/* The threads of C11: mutexes, conditions, once; and its atomics, with fences. */
#include <stdatomic.h>
#include <threads.h>

enum { ITEMS = 300 };
static mtx_t lock;
static cnd_t changed;
static once_flag once = ONCE_FLAG_INIT;
static int items[8], first, count, sum;
static atomic_int seen, ready;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static int message, spun;

static void start(void) {
    mtx_init(&lock, mtx_plain | mtx_recursive);
    cnd_init(&changed);
}

static void put(int item) {
    mtx_lock(&lock);
    while (count == 8)
        cnd_wait(&changed, &lock);
    items[(first + count++) % 8] = item;
    cnd_broadcast(&changed);
    mtx_unlock(&lock);
}

static int take(void) {
    mtx_lock(&lock);
    while (count == 0)
        cnd_wait(&changed, &lock);
    int item = items[first];
    first = (first + 1) % 8;
    count--;
    cnd_broadcast(&changed);
    mtx_unlock(&lock);
    return item;
}

static void highest(int item) {
    int now = atomic_load_explicit(&seen, memory_order_relaxed);
    while (now < item && !atomic_compare_exchange_weak(&seen, &now, item))
        ;
}

static void spin(void) {
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        thrd_yield();
    spun++;
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

static int producer(void *unused) {
    (void)unused;
    call_once(&once, start);
    message = 42;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&ready, 1, memory_order_relaxed);
    for (int i = 0; i < ITEMS; i++) {
        put(i);
        highest(i);
        spin();
    }
    return 0;
}

static int consumer(void *unused) {
    (void)unused;
    call_once(&once, start);
    for (int i = 0; i < ITEMS; i++) {
        sum += take();
        spin();
    }
    while (!atomic_load_explicit(&ready, memory_order_relaxed))
        thrd_yield();
    atomic_thread_fence(memory_order_acquire);
    return message;
}

int main(void) {
    thrd_t threads[2];
    int result;
    thrd_create(&threads[0], producer, NULL);
    thrd_create(&threads[1], consumer, NULL);
    thrd_join(threads[0], NULL);
    thrd_join(threads[1], &result);
    return result != 42 || sum != ITEMS * (ITEMS - 1) / 2 || seen != ITEMS - 1 || spun != 2 * ITEMS;
}
