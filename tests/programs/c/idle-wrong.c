/* Waits until there is something, lets go, and takes it: another, who has waited for the same, may be faster. Nobody has to wait, because there is plenty.
 * finding: take 26 28 high */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int items = 10000;

static void wait_for_one(void)
{
    pthread_mutex_lock(&lock);
    while (items == 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void remove_one(void)
{
    pthread_mutex_lock(&lock);
    items--;
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void take(void)
{
    wait_for_one();
    /* Somebody else takes the last one here. */
    remove_one();
}

static void *consumer(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++)
        take();
    return NULL;
}

int main(void)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, consumer, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
