/* Everything is under one lock, but some threads have much more to do than others: with little memory for
 * the recording, they forget more. */
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long pair[2], many[64];
static int rounds;

__attribute__((noinline)) static void step(void) {
    pthread_mutex_lock(&lock);
    pair[0]++;
    pair[1]++;
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void chatter(void) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 64; i++)
        many[i]++;
    pthread_mutex_unlock(&lock);
}

static void *worker(void *much) {
    for (int round = 0; round < rounds; round++) {
        step();
        for (long i = 0; i < (long)much; i++)
            chatter();
    }
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[4];
    rounds = count > 1 ? atoi(arguments[1]) : 10;
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(i * i));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return pair[0] != pair[1];
}
