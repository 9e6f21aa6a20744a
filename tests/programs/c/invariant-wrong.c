/* Two accounts, each with its lock, and a sum that never changes: reading one after the other may see a
 * transfer half done. The gap is between the two critical sections.
 * finding: total 23 24 */
#include <pthread.h>

static pthread_mutex_t savings_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static long savings = 1000, current = 1000;

static void transfer(long amount) {
    pthread_mutex_lock(&savings_lock);
    pthread_mutex_lock(&current_lock);
    savings -= amount;
    current += amount;
    pthread_mutex_unlock(&current_lock);
    pthread_mutex_unlock(&savings_lock);
}

static long total(void) {
    long sum;
    pthread_mutex_lock(&savings_lock);
    sum = savings;
    pthread_mutex_unlock(&savings_lock);
    pthread_mutex_lock(&current_lock);
    sum += current;
    pthread_mutex_unlock(&current_lock);
    return sum;
}

static void *teller(void *unused) {
    for (int i = 0; i < 1000; i++)
        transfer(i % 7);
    return unused;
}

static void *auditor(void *unused) {
    for (int i = 0; i < 1000; i++)
        total();
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, teller, NULL);
    pthread_create(&threads[1], NULL, auditor, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
