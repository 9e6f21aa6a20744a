/* Waits until all jobs are done, and then adds one. Nobody else adds any, so nobody takes back what it has waited for, and it never has to wait: nothing high. */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int empty = 1, busy, done, over;

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (empty && !over)
            pthread_cond_wait(&changed, &lock);
        if (empty)
            break;
        empty = 1;
        busy++;
        pthread_mutex_unlock(&lock);
        pthread_mutex_lock(&lock);
        done++;
        busy--;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void join(void)
{
    pthread_mutex_lock(&lock);
    while (!empty || busy > 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void add(void)
{
    pthread_mutex_lock(&lock);
    empty = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void add_another(void)
{
    join();
    add();
}

int main(void)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 5; i++) {
        /* Long enough for the others. */
        for (volatile long j = 0; j < 20000000; j++)
            ;
        add_another();
    }
    join();
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return done != 5;
}
