// Withdraws in two threads, a bit wrong, until somebody ends it. Says that it has begun, and then every
// tenth of a second that it goes on.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balance = 1000;

static __attribute__((noinline)) void withdraw(void) {
    pthread_mutex_lock(&lock);
    long seen = balance;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    balance = seen - 1;
    pthread_mutex_unlock(&lock);
}

static void *work(void *unused) {
    for (;;) {
        withdraw();
        usleep(100);
    }
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < TENTHS; i++) {
        printf("%d\n", i);
        fflush(stdout);
        usleep(100000);
    }
    return 7;
}
