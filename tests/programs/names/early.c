// The account is allocated long before it is used: what is it called by who forgets the past?
#include <pthread.h>
#include <stdlib.h>

struct account {
    long number;
    long balance;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void deposit(struct account *account)
{
    pthread_mutex_lock(&lock);
    long seen = account->balance;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    account->balance = seen + 1;
    pthread_mutex_unlock(&lock);
}

static void count(long *deposits)
{
    pthread_mutex_lock(&lock);
    long seen = *deposits;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    *deposits = seen + 1;
    pthread_mutex_unlock(&lock);
}

struct work {
    struct account *account;
    long *deposits;
};

static void *worker(void *argument)
{
    struct work *work = argument;
    for (int i = 0; i < 2000; i++) {
        deposit(work->account);
        count(work->deposits);
    }
    return NULL;
}

static struct account *open_account(void)
{
    return calloc(1, sizeof(struct account));
}

int main(void)
{
    long deposits = 0;
    struct work work = {open_account(), &deposits};
    // More than the room that a thread has for what it has done.
    for (int i = 0; i < 20000; i++)
        free(malloc(100 + i % 100));
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, &work);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    free(work.account);
    return 0;
}
