/* Not checked for atomicity: what the threads record must fit the values they read. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define THREADS 4
static _Atomic uint64_t cells[8];
static _Atomic uint32_t narrow;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t guarded;

static void *worker(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed * 2654435761u + 1;

    for (int i = 0; i < 20000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        _Atomic uint64_t *cell = &cells[random % 8];
        uint64_t seen;
        switch ((random >> 8) % 6) {
        case 0:
            atomic_fetch_add(cell, random);
            break;
        case 1:
            atomic_store(cell, random);
            break;
        case 2:
            (void)atomic_load(cell);
            break;
        case 3:
            seen = atomic_load_explicit(cell, memory_order_relaxed);
            atomic_compare_exchange_strong(cell, &seen, random);
            break;
        case 4:
            atomic_fetch_xor(&narrow, (uint32_t)random);
            break;
        case 5:
            pthread_mutex_lock(&lock);
            guarded++;
            pthread_mutex_unlock(&lock);
            break;
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
