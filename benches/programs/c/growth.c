/* Growth: one kind of work, as much of it as is asked for.
 *
 * growth mixed N         N turns of a little of everything, in two threads
 * growth transactions N  N small regions, in two threads
 * growth endless N       a region that ends with the program: N turns in it, in two threads
 * growth threads N       N threads that start and end, 50 at a time
 * growth together N      N threads at once
 * growth everyone N      one variable, N times written by each of four threads
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 1024 };

static pthread_mutex_t locks[16], lock = PTHREAD_MUTEX_INITIALIZER;
static long cells[CELLS], one, number;

static void add(long turn) {
    long at = turn * 7919 % CELLS;
    pthread_mutex_lock(&locks[at % 16]);
    cells[at] += turn;
    pthread_mutex_unlock(&locks[at % 16]);
}

static long look(long turn) {
    long own[8], sum = 0;
    for (int at = 0; at < 8; at++) own[at] = turn + at;
    for (int at = 0; at < 8; at++) sum += own[at];
    return sum;
}

static long turns(void) {
    long sum = 0;
    for (long turn = 0; turn < number; turn++) {
        sum += look(turn);
        if (turn % 16 == 0) add(turn);
    }
    return sum;
}

static void *mixed(void *unused) {
    long sum = 0;
    for (long turn = 0; turn < number; turn++) {
        sum += look(turn);
        if (turn % 16 == 0) add(turn);
        if (turn % 64 == 0) free(calloc(1, 256));
    }
    return (void *)sum;
}

static void *transactions(void *unused) {
    for (long turn = 0; turn < number; turn++) add(turn);
    return NULL;
}

static void *endless(void *unused) { return (void *)turns(); }

static void set(long value) {
    pthread_mutex_lock(&lock);
    one = value;
    pthread_mutex_unlock(&lock);
}

static void *everyone(void *unused) {
    for (long turn = 0; turn < number; turn++) set(turn);
    return NULL;
}

static void *once(void *unused) {
    set(1);
    return NULL;
}

static void run(void *(*work)(void *), long count) {
    pthread_t *threads = calloc(count, sizeof *threads);
    for (long at = 0; at < count; at++)
        if (pthread_create(&threads[at], NULL, work, NULL) != 0) exit(1);
    for (long at = 0; at < count; at++) pthread_join(threads[at], NULL);
    free(threads);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    const char *kind = arguments[1];
    number = atol(arguments[2]);
    for (int at = 0; at < 16; at++) pthread_mutex_init(&locks[at], NULL);
    if (strcmp(kind, "mixed") == 0) run(mixed, 2);
    else if (strcmp(kind, "transactions") == 0) run(transactions, 2);
    else if (strcmp(kind, "endless") == 0) run(endless, 2);
    else if (strcmp(kind, "everyone") == 0) run(everyone, 4);
    else if (strcmp(kind, "together") == 0) run(once, number);
    else if (strcmp(kind, "threads") == 0)
        for (long at = 0; at < number; at += 50) run(once, 50);
    else return 2;
    printf("%ld\n", one + cells[0]);
    return 0;
}
