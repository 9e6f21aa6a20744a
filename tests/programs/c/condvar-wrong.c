/* Decides whether to wait by what it saw before: another may have taken the item since.
 * finding: take 20 25 */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int items, closed;

static void put(void)
{
    pthread_mutex_lock(&lock);
    items++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void take(void)
{
    pthread_mutex_lock(&lock);
    int ready = items > 0;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    while (!ready && !closed && items == 0)
        pthread_cond_wait(&changed, &lock);
    items--;
    pthread_mutex_unlock(&lock);
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
    for (int i = 0; i < 1000; i++)
        put();
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
