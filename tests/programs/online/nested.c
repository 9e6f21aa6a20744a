// Two mistakes, one inside of the other. `handle` runs for a long time and is never atomic; what is
// wrong with `withdraw` is seen only by those who look at it by itself.
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static long requests, balance = 1000;

static __attribute__((noinline)) void withdraw(void) {
    pthread_mutex_lock(&lock);
    long seen = balance;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    balance = seen - 1;
    pthread_mutex_unlock(&lock);
}

static __attribute__((noinline)) void handle(void) {
    pthread_mutex_lock(&other);
    long seen = requests;
    pthread_mutex_unlock(&other);
    for (int i = 0; i < 50; i++) withdraw();
    pthread_mutex_lock(&other);
    requests = seen + 1;
    pthread_mutex_unlock(&other);
}

static void *work(void *unused) {
    for (int i = 0; i < 200; i++) handle();
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
