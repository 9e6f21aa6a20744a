/* Adds to a number by what it has read under the lock before. The number lies four bytes beside where
 * it should, and only its upper half, in the next eight bytes, is changed by the other thread.
 * finding: add 19 22 */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char buffer[24] __attribute__((aligned(8)));

static unsigned long *number(void)
{
    return (unsigned long *)(buffer + 4);
}

static void add(unsigned long amount)
{
    unsigned long now;

    pthread_mutex_lock(&lock);
    now = *number();
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    *number() = now + amount;
    pthread_mutex_unlock(&lock);
}

static void add_above(unsigned amount)
{
    pthread_mutex_lock(&lock);
    *(unsigned *)(buffer + 8) += amount;
    pthread_mutex_unlock(&lock);
}

static void *adder(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++)
        add(1);
    return NULL;
}

static void *above(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++)
        add_above(1);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];

    pthread_create(&threads[0], NULL, adder, NULL);
    pthread_create(&threads[1], NULL, above, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
