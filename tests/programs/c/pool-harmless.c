/* Takes something out of a pool and gives it back: two updates of a count, each of them complete.
 * finding: work 25 26 medium */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int available = 4;

__attribute__((noinline)) int take(void) {
    pthread_mutex_lock(&lock);
    int taken = available > 0;
    if (taken)
        available--;
    pthread_mutex_unlock(&lock);
    return taken;
}

__attribute__((noinline)) void give(int taken) {
    pthread_mutex_lock(&lock);
    if (taken)
        available++;
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) void work(void) {
    int taken = take();
    give(taken);
}

static void *worker(void *unused) {
    for (int i = 0; i < 100; i++)
        work();
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return available != 4;
}
