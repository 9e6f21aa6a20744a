/* Waits for all jobs of a round before it looks at their sum, but they are done long before: nobody has to wait. */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int jobs, busy, sum, over;

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (jobs == 0 && !over)
            pthread_cond_wait(&changed, &lock);
        if (jobs == 0)
            break;
        jobs--;
        sum++;
        busy--;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void start(int count)
{
    pthread_mutex_lock(&lock);
    sum = 0;
    jobs = busy = count;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void await_change(void)
{
    pthread_cond_wait(&changed, &lock);
}

static int join(void)
{
    pthread_mutex_lock(&lock);
    while (busy > 0)
        await_change();
    int now = sum;
    pthread_mutex_unlock(&lock);
    return now;
}

__attribute__((noinline)) static int add_up(void)
{
    start(3);
    /* Long enough for the others. */
    for (volatile long i = 0; i < 20000000; i++)
        ;
    return join();
}

int main(void)
{
    pthread_t threads[2];
    int right = 1;

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 5; i++)
        right &= add_up() == 3;
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return !right;
}
