/* Once, barrier, semaphore, spin lock, recursive mutex: each used as it should be. */
#include <pthread.h>
#include <semaphore.h>

#define THREADS 4
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static pthread_mutex_t recursive;
static sem_t items;
static int table[16], rounds[THREADS], spun, nested, given;

static void fill_table(void) {
    for (int i = 0; i < 16; i++)
        table[i] = i;
}

static int look_up(int i) {
    pthread_once(&once, fill_table);
    return table[i % 16];
}

static void spin_once(void) {
    pthread_spin_lock(&spin);
    spun++;
    pthread_spin_unlock(&spin);
}

static void inner(void) {
    pthread_mutex_lock(&recursive);
    nested++;
    pthread_mutex_unlock(&recursive);
}

static void outer(void) {
    pthread_mutex_lock(&recursive);
    nested++;
    inner();
    nested++;
    pthread_mutex_unlock(&recursive);
}

static int sum_of_rounds(void) {
    int sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += rounds[i];
    return sum;
}

static void *worker(void *argument) {
    int own = (int)(long)argument, sum = 0;

    for (int i = 0; i < 100; i++) {
        sum += look_up(i);
        spin_once();
        outer();
        rounds[own]++;
        pthread_barrier_wait(&barrier);
        sum += sum_of_rounds();
        pthread_barrier_wait(&barrier);
    }
    sem_post(&items);
    return (void *)(long)sum;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_spin_init(&spin, 0);
    sem_init(&items, 0, 0);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        sem_wait(&items);
        given++;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return nested != 3 * 100 * THREADS;
}
