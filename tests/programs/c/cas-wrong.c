/* Computes from one load and expects another: what came in between is lost, although the
 * exchange succeeds.
 * finding: add 11 13 */
#include <pthread.h>
#include <stdatomic.h>

static atomic_int total;

static void add(int amount)
{
    int seen = atomic_load(&total);
    int expected = atomic_load(&total);
    while (!atomic_compare_exchange_strong(&total, &expected, seen + amount))
        ;
}

static void *worker(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++)
        add(i);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
