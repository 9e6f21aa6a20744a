/* C, calls and small records: boards of queens, counted by recursion, a part in each thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, MOST = 16 };

struct board { int size, placed, columns[MOST]; };

static int free_of_attack(const struct board *board, int column) {
    for (int row = 0; row < board->placed; row++) {
        int distance = board->columns[row] - column, rows = board->placed - row;
        if (distance == 0 || distance == rows || distance == -rows) return 0;
    }
    return 1;
}

static long solutions(struct board *board) {
    if (board->placed == board->size) return 1;
    long found = 0;
    for (int column = 0; column < board->size; column++) {
        if (!free_of_attack(board, column)) continue;
        board->columns[board->placed++] = column;
        found += solutions(board);
        board->placed--;
    }
    return found;
}

static long rounds;

static void *worker(void *argument) {
    long found = 0;
    for (long round = 0; round < rounds; round++) {
        struct board *board = calloc(1, sizeof *board);
        board->size = 8;
        found += solutions(board);
        free(board);
    }
    *(long *)argument = found;
    return NULL;
}

int main(int count, char **arguments) {
    rounds = 10 * (count > 1 ? atol(arguments[1]) : 1);
    pthread_t threads[THREADS];
    long found[THREADS], sum = 0;
    for (int thread = 0; thread < THREADS; thread++) pthread_create(&threads[thread], NULL, worker, &found[thread]);
    for (int thread = 0; thread < THREADS; thread++) {
        pthread_join(threads[thread], NULL);
        sum += found[thread];
    }
    printf("%ld\n", sum);
    return 0;
}
