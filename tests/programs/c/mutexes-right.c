/* Mutexes of every kind, locked in every way; semaphores that are tried and waited for. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, checking, adaptive, robust;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t permits;
static int plain, checked, adapted, kept, table[2], permitted;

static void add_if_free(void) {
    if (pthread_mutex_trylock(&normal) == 0) {
        plain++;
        pthread_mutex_unlock(&normal);
    }
}

static void add_checked(void) {
    pthread_mutex_lock(&checking);
    if (pthread_mutex_lock(&checking) == EDEADLK)
        checked++;
    pthread_mutex_unlock(&checking);
}

static void add_in_time(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    if (pthread_mutex_timedlock(&adaptive, &until) == 0) {
        adapted++;
        pthread_mutex_unlock(&adaptive);
    }
}

static void add_robust(void) {
    pthread_mutex_lock(&robust);
    kept++;
    pthread_mutex_unlock(&robust);
}

static void move_one(void) {
    if (pthread_rwlock_trywrlock(&table_lock) != 0)
        pthread_rwlock_wrlock(&table_lock);
    table[0]--;
    table[1]++;
    pthread_rwlock_unlock(&table_lock);
}

static int sum(void) {
    if (pthread_rwlock_tryrdlock(&table_lock) != 0)
        pthread_rwlock_rdlock(&table_lock);
    int sum = table[0] + table[1];
    pthread_rwlock_unlock(&table_lock);
    return sum;
}

static void with_permit(void) {
    if (sem_trywait(&permits) != 0)
        sem_wait(&permits);
    permitted++;
    sem_post(&permits);
}

static void *worker(void *wrong) {
    for (int i = 0; i < 300; i++) {
        add_if_free();
        add_checked();
        add_in_time();
        add_robust();
        move_one();
        if (sum() != 0)
            return wrong;
        with_permit();
    }
    return NULL;
}

static void make(pthread_mutex_t *mutex, int kind, int robustness) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind);
    pthread_mutexattr_setrobust(&attributes, robustness);
    pthread_mutex_init(mutex, &attributes);
}

int main(void) {
    pthread_t threads[3];
    void *wrong = NULL;
    make(&checking, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);
    make(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_STALLED);
    make(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
    sem_init(&permits, 0, 1);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, worker, &permits);
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result)
            wrong = result;
    }
    return wrong || checked != 900 || adapted != 900 || kept != 900 || permitted != 900;
}
