/* Asks whether there is room under one lock, and puts the item there under another.
 * finding: put 14 19 */
#include <pthread.h>

#define SIZE 4
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int items[SIZE], count;

static int put(int item)
{
    int room;

    pthread_mutex_lock(&lock);
    room = count < SIZE;
    pthread_mutex_unlock(&lock);
    if (!room)
        return 0;
    pthread_mutex_lock(&lock);
    items[count++ % SIZE] = item;
    pthread_mutex_unlock(&lock);
    return 1;
}

static void take(void)
{
    pthread_mutex_lock(&lock);
    if (count > 0)
        count--;
    pthread_mutex_unlock(&lock);
}

static void *worker(void *unused)
{
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        put(i);
        put(i);
        take();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
