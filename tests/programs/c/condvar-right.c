/* Looks at the condition again each time it wakes, under the lock that guards it. */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int items;

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
    while (items == 0)
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
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return items;
}
