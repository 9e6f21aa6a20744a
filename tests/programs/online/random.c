/* Regions that do random things under locks and by atomic operations: some are atomic, and some are
 * not, and which are seen not to be depends on the run. The argument is a seed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define THREADS 3
#define LOCKS 4
static pthread_mutex_t locks[LOCKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
/* What the locks guard: some of it side by side. */
static int guarded[LOCKS][3];
static long table[4];
static _Atomic uint64_t cells[3];

static uint64_t next(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random >> 8;
}

static void step(uint64_t *random) {
    unsigned which = next(random) % LOCKS;
    switch (next(random) % 8) {
    case 0:
        atomic_fetch_add(&cells[which % 3], 1);
        break;
    case 1:
        (void)atomic_load(&cells[which % 3]);
        break;
    case 2:
        pthread_rwlock_wrlock(&shared);
        table[which]++;
        pthread_rwlock_unlock(&shared);
        break;
    case 3:
    case 4:
        pthread_rwlock_rdlock(&shared);
        *random += (uint64_t)table[which] & 1;
        pthread_rwlock_unlock(&shared);
        break;
    default:
        pthread_mutex_lock(&locks[which]);
        guarded[which][next(random) % 3]++;
        pthread_mutex_unlock(&locks[which]);
    }
}

/* A single step is atomic, two are not if others come in between. */
__attribute__((noinline)) void once(uint64_t *random) { step(random); }
__attribute__((noinline)) void twice(uint64_t *random) {
    step(random);
    step(random);
}
__attribute__((noinline)) void nested(uint64_t *random) {
    pthread_mutex_lock(&locks[0]);
    guarded[0][1]++;
    pthread_mutex_lock(&locks[1]);
    guarded[1][1]++;
    pthread_mutex_unlock(&locks[1]);
    guarded[0][2] += (int)next(random);
    pthread_mutex_unlock(&locks[0]);
}
__attribute__((noinline)) void again(uint64_t *random) {
    pthread_mutex_lock(&locks[2]);
    int seen = guarded[2][0];
    pthread_mutex_unlock(&locks[2]);
    if (next(random) % 4 == 0)
        step(random);
    pthread_mutex_lock(&locks[2]);
    guarded[2][0] = seen + 1;
    pthread_mutex_unlock(&locks[2]);
}

static void *worker(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed * 2654435761u + 1;
    for (int i = 0; i < 400; i++) {
        switch (next(&random) % 8) {
        case 0:
            twice(&random);
            break;
        case 1:
            again(&random);
            break;
        case 2:
        case 3:
            nested(&random);
            break;
        default:
            once(&random);
        }
    }
    return NULL;
}

int main(int count, char **arguments) {
    long seed = count > 1 ? atol(arguments[1]) : 1;
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(seed * THREADS + i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
