// What is on a thread's stack and lent to another one while a function runs. `lends` looks twice at a variable of its own that the other
// thread changes in between; `grows` does so with memory that its caller has got by `alloca`, which is below the frame of the
// caller and older than the call. `keeps` tells nobody where its variable is, and is atomic.
#include <alloca.h>
#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 3000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long *lent, *grown;
static long total;

static __attribute__((noinline)) void raise_by_one(long *at) {
    *at += 1;
}

static __attribute__((noinline)) long lends(void) {
    long own = 1;
    raise_by_one(&own);
    pthread_mutex_lock(&lock);
    lent = &own;
    long seen = own;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    lent = 0;
    seen -= own;
    pthread_mutex_unlock(&lock);
    return seen;
}

static __attribute__((noinline)) void grows(long *buffer) {
    pthread_mutex_lock(&lock);
    long seen = *buffer;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    *buffer = seen + 1;
    pthread_mutex_unlock(&lock);
}

static __attribute__((noinline)) void keeps(void) {
    long own = 1;
    raise_by_one(&own);
    pthread_mutex_lock(&lock);
    total += own;
    pthread_mutex_unlock(&lock);
}

static void *lender(void *size) {
    long difference = 0;
    for (int round = 0; round < ROUNDS; round++) {
        // Nobody has had this before.
        long *buffer = alloca(*(long *)size);
        *buffer = 0;
        pthread_mutex_lock(&lock);
        grown = buffer;
        pthread_mutex_unlock(&lock);
        grows(buffer);
        keeps();
        difference += lends();
        if (round % 8 == 0) sched_yield();
    }
    pthread_mutex_lock(&lock);
    grown = 0;
    total += difference;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void *borrower(void *unused) {
    for (int round = 0; round < 4 * ROUNDS; round++) {
        pthread_mutex_lock(&lock);
        if (lent) *lent += 1;
        if (grown) *grown += 1;
        pthread_mutex_unlock(&lock);
        if (round % 8 == 0) sched_yield();
    }
    return unused;
}

int main(void) {
    pthread_t threads[2];
    long size = 64;
    pthread_create(&threads[0], 0, lender, &size);
    pthread_create(&threads[1], 0, borrower, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
