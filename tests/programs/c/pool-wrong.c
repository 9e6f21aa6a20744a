/* Looks whether there is something in a pool, and takes it in another critical section.
 * finding: take 10 14 high */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int available = 4;

__attribute__((noinline)) int take(void) {
    pthread_mutex_lock(&lock);
    int some = available > 0;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    if (some)
        available--;
    pthread_mutex_unlock(&lock);
    return some;
}

__attribute__((noinline)) void give(void) {
    pthread_mutex_lock(&lock);
    available++;
    pthread_mutex_unlock(&lock);
}

static void *worker(void *unused) {
    for (int i = 0; i < 100; i++)
        if (take())
            give();
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
