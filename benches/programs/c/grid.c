/* C, compute-bound: heat on a grid, a barrier after each step, neighbours read across the border. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 256, THREADS = 2 };

static double grids[2][SIZE][SIZE];
static pthread_barrier_t barrier;
static long steps;

static double mean(double (*grid)[SIZE], int row, int column) {
    return 0.25 * (grid[row - 1][column] + grid[row + 1][column] + grid[row][column - 1] + grid[row][column + 1]);
}

static void *worker(void *argument) {
    long part = (long)argument;
    int first = 1 + part * (SIZE - 2) / THREADS, last = 1 + (part + 1) * (SIZE - 2) / THREADS;
    for (long step = 0; step < steps; step++) {
        double (*from)[SIZE] = grids[step % 2], (*to)[SIZE] = grids[(step + 1) % 2];
        for (int row = first; row < last; row++)
            for (int column = 1; column < SIZE - 1; column++) to[row][column] = mean(from, row, column);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int count, char **arguments) {
    steps = 40 * (count > 1 ? atol(arguments[1]) : 1);
    for (int at = 0; at < SIZE; at++) grids[0][0][at] = grids[1][0][at] = 100;
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long thread = 0; thread < THREADS; thread++) pthread_create(&threads[thread], NULL, worker, (void *)thread);
    for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);
    double sum = 0;
    for (int row = 0; row < SIZE; row++)
        for (int column = 0; column < SIZE; column++) sum += grids[steps % 2][row][column];
    printf("%f\n", sum);
    return 0;
}
