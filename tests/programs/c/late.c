// finding: withdraw 43 46
// Much that is right comes first, and both threads do it: a small budget has forgotten it when the mistake is made.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long table[512];
static long balance = 1000;
static int to_first[2], to_second[2];

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

static void tell(int *other) {
    if (write(other[1], "", 1) != 1)
        abort();
}

static void hear(int *from) {
    char word;
    if (read(from[0], &word, 1) != 1)
        abort();
}

static void withdraw(long amount) {
    long now = look();
    tell(to_second);
    hear(to_first);
    set(now - amount);
}

static void *first(void *arg) {
    for (long at = 0; at < 40000; at++)
        fill(at);
    hear(to_first);
    withdraw(1);
    return arg;
}

static void *second(void *arg) {
    for (long at = 0; at < 40000; at++)
        fill(at);
    tell(to_first);
    hear(to_second);
    set(look() + 1);
    tell(to_first);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    if (pipe(to_first) || pipe(to_second))
        return 1;
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}
