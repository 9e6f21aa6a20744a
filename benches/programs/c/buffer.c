/* C, waiting: producers and consumers of a bounded buffer, with condition variables. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 64, PAIRS = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static unsigned *slots[ROOM];
static unsigned head, filled;
static long items;
static unsigned long sum;

static void put(unsigned *item) {
    pthread_mutex_lock(&lock);
    while (filled == ROOM) pthread_cond_wait(&not_full, &lock);
    slots[(head + filled++) % ROOM] = item;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
}

static unsigned *take(void) {
    pthread_mutex_lock(&lock);
    while (filled == 0) pthread_cond_wait(&not_empty, &lock);
    unsigned *item = slots[head];
    head = (head + 1) % ROOM;
    filled--;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&lock);
    return item;
}

static void *produce(void *argument) {
    for (long item = 0; item < items; item++) {
        unsigned *block = malloc(16 * sizeof *block);
        for (int at = 0; at < 16; at++) block[at] = item + at;
        put(block);
    }
    return argument;
}

static void *consume(void *argument) {
    unsigned long mine = 0;
    for (long item = 0; item < items; item++) {
        unsigned *block = take();
        for (int at = 0; at < 16; at++) mine += block[at];
        free(block);
    }
    pthread_mutex_lock(&lock);
    sum += mine;
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(int count, char **arguments) {
    items = 10000 * (count > 1 ? atol(arguments[1]) : 1);
    pthread_t threads[2 * PAIRS];
    for (int pair = 0; pair < PAIRS; pair++) {
        pthread_create(&threads[2 * pair], NULL, produce, NULL);
        pthread_create(&threads[2 * pair + 1], NULL, consume, NULL);
    }
    for (int thread = 0; thread < 2 * PAIRS; thread++) pthread_join(threads[thread], NULL);
    printf("%lu\n", sum);
    return 0;
}
