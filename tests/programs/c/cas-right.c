/* Exchanges only what it computed from: another's change in between means once more. */
#include <pthread.h>
#include <stdatomic.h>

static atomic_int total, largest;

static void add(int amount)
{
    int seen = atomic_load(&total);
    while (!atomic_compare_exchange_weak(&total, &seen, seen + amount))
        ;
}

static void raise_to(int value)
{
    int seen = atomic_load_explicit(&largest, memory_order_relaxed);
    while (seen < value && !atomic_compare_exchange_strong(&largest, &seen, value))
        ;
}

static void *worker(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++) {
        add(1);
        raise_to(i);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return total != 1000 || largest != 499;
}
