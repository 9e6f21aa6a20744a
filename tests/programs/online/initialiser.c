// A long initialiser tells how far it is, and somebody looks at that meanwhile: no initialiser is expected to be atomic.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { STEPS = 20000, AT_ONCE = 100 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int begun, done, looks;

static __attribute__((noinline)) void step(int number) {
    atomic_store(&begun, number);
    atomic_store(&done, number);
}

static void fill(void) {
    for (int number = 1; number <= STEPS; number++) {
        step(number);
        if (number % AT_ONCE == 0) sched_yield();
    }
}

static void *worker(void *unused) {
    pthread_once(&once, fill);
    return unused;
}

int main(void) {
    pthread_t thread;
    int seen = 0;
    pthread_create(&thread, 0, worker, 0);
    while (seen < STEPS) {
        seen = atomic_load(&begun) & atomic_load(&done);
        atomic_fetch_add(&looks, 1);
    }
    pthread_join(thread, 0);
    return 0;
}
