/* A library that is loaded while the program runs. */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long total;

void *work(void *turns)
{
    for (long i = 0; i < (long)turns; i++) {
        pthread_mutex_lock(&lock);
        total++;
        pthread_mutex_unlock(&lock);
    }
    return turns;
}
