// finding: withdraw 35 38
// Much that is right comes first: a small budget has forgotten it when the mistake is made.
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long table[512];
static long balance = 1000;
static int turn;

static void fill(long at) {
    pthread_mutex_lock(&lock);
    table[at % 512] += at;
    pthread_mutex_unlock(&lock);
}

static long look(void) {
    pthread_mutex_lock(&lock);
    long now = balance;
    pthread_mutex_unlock(&lock);
    return now;
}

static void set(long now) {
    pthread_mutex_lock(&lock);
    balance = now;
    pthread_mutex_unlock(&lock);
}

static void wait_for(int what) {
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != what)
        ;
}

static void withdraw(long amount) {
    long now = look();
    __atomic_store_n(&turn, 1, __ATOMIC_RELEASE);
    wait_for(2);
    set(now - amount);
}

static void *first(void *arg) {
    for (long at = 0; at < 40000; at++)
        fill(at);
    withdraw(1);
    return arg;
}

static void *second(void *arg) {
    for (long at = 0; at < 40000; at++)
        fill(at);
    wait_for(1);
    set(look() + 1);
    __atomic_store_n(&turn, 2, __ATOMIC_RELEASE);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}
