/* Before a round starts and when it is over, one thread has the sum to itself; in between it is under a lock. */
#include <pthread.h>

static pthread_mutex_t rounds = PTHREAD_MUTEX_INITIALIZER, sums = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int round_number, busy, sum, total;

__attribute__((noinline)) void add(int amount) {
    pthread_mutex_lock(&sums);
    int before = sum;
    sum = before + amount;
    pthread_mutex_unlock(&sums);
}

__attribute__((noinline)) void start(void) {
    sum = 0;
    pthread_mutex_lock(&rounds);
    busy = 2;
    round_number++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&rounds);
}

__attribute__((noinline)) void finish(void) {
    pthread_mutex_lock(&rounds);
    while (busy > 0)
        pthread_cond_wait(&changed, &rounds);
    pthread_mutex_unlock(&rounds);
    total += sum;
}

static void *work(void *unused) {
    for (int mine = 1; mine <= 20; mine++) {
        pthread_mutex_lock(&rounds);
        while (round_number < mine)
            pthread_cond_wait(&changed, &rounds);
        pthread_mutex_unlock(&rounds);
        add(mine);
        pthread_mutex_lock(&rounds);
        busy--;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&rounds);
    }
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 20; i++) {
        start();
        finish();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return total != 2 * 210;
}
