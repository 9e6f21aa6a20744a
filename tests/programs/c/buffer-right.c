/* A bounded buffer with condition variables: waiting in a loop is not atomic, and need not be. */
#include <pthread.h>

#define SIZE 4
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static int items[SIZE], first, count;

static void put(int item) {
    pthread_mutex_lock(&lock);
    while (count == SIZE)
        pthread_cond_wait(&not_full, &lock);
    items[(first + count++) % SIZE] = item;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
}

static int take(void) {
    int item;

    pthread_mutex_lock(&lock);
    while (count == 0)
        pthread_cond_wait(&not_empty, &lock);
    item = items[first];
    first = (first + 1) % SIZE;
    count--;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&lock);
    return item;
}

static void *producer(void *unused) {
    (void)unused;
    for (int i = 0; i < 1000; i++)
        put(i);
    return NULL;
}

int main(void) {
    pthread_t thread;
    long sum = 0;

    pthread_create(&thread, NULL, producer, NULL);
    for (int i = 0; i < 1000; i++)
        sum += take();
    pthread_join(thread, NULL);
    return sum != 499500;
}
