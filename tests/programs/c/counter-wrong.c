/* Loads an atomic and stores it back: two atomic steps are not one.
 * finding: count 9 10 */
#include <pthread.h>
#include <stdatomic.h>

static atomic_int hits;

static void count(void) {
    int seen = atomic_load(&hits);
    atomic_store(&hits, seen + 1);
}

static void *visitor(void *unused) {
    (void)unused;
    for (int i = 0; i < 2000; i++)
        count();
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, visitor, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
