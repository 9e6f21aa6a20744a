/* Counts in two critical sections; the function is not expected to be atomic. */
#include <atomsan.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static int balance = 100000;

static void withdraw(int amount)
{
    int seen;

    ATOMSAN_NOT_ATOMIC();
    pthread_mutex_lock(&lock);
    seen = balance;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    balance = seen - amount;
    pthread_mutex_unlock(&lock);
}

static void *customer(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 10000; i++)
        withdraw(1);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];

    pthread_barrier_init(&start, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, customer, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
