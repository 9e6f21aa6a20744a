/* Waits for all jobs of a round before it looks at their sum, also where there is nothing left to wait for. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int jobs, busy, sum, over;

static void *worker(void *unused)
{
    (void)unused;
    /* In the first round there is something to wait for. */
    usleep(200000);
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

static int join(void)
{
    pthread_mutex_lock(&lock);
    while (busy > 0)
        pthread_cond_wait(&changed, &lock);
    int now = sum;
    pthread_mutex_unlock(&lock);
    return now;
}

static int add_up(int later)
{
    start(3);
    /* Long enough for the others, or not. */
    for (volatile long i = 0; later && i < 3000000; i++)
        ;
    return join();
}

int main(void)
{
    pthread_t threads[2];
    int right = 1;

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 20; i++)
        right &= add_up(i % 2) == 3;
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return !right;
}
