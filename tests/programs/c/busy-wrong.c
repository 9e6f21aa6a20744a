/* Reads the balance in one critical section and writes it in another, while somebody else has much more to
 * do, and goes on when it is over: with little memory for the recording, it must not be forgotten for that.
 * finding: withdraw 17 20 */
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static int balance = 100000, rounds;
static long numbers[1000];

static void withdraw(int amount)
{
    int seen;

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
    for (int i = 0; i < 1000; i++)
        withdraw(1);
    return NULL;
}

__attribute__((noinline)) static void count(void)
{
    pthread_mutex_lock(&own);
    for (int i = 0; i < 1000; i++)
        numbers[i]++;
    pthread_mutex_unlock(&own);
}

static void *counter(void *unused)
{
    (void)unused;
    for (int i = 0; i < rounds; i++)
        count();
    return NULL;
}

int main(int arguments, char **argument)
{
    pthread_t threads[2], busy;

    rounds = arguments > 1 ? atoi(argument[1]) : 10;
    count();
    withdraw(1);
    pthread_barrier_init(&start, NULL, 2);
    pthread_create(&busy, NULL, counter, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, customer, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_join(busy, NULL);
    return 0;
}
