/* As region-wrong.c, but one critical section after the other is what the block is about. */
#include <atomsan.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static int balance;

static int *account(void)
{
    return &balance;
}

static void *customer(void *unused)
{
    int *at = account();
    pthread_barrier_wait(&start);
    for (int i = 0; i < 2000; i++) {
        ATOMSAN_ATOMIC("look") {
            pthread_mutex_lock(&lock);
            if (*at < 0) {
                pthread_mutex_unlock(&lock);
                break;
            }
            pthread_mutex_unlock(&lock);
        }
        ATOMSAN_ATOMIC("pay") {
            pthread_mutex_lock(&lock);
            *at += 1;
            pthread_mutex_unlock(&lock);
        }
    }
    return unused;
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
