/* Looks under the read lock and changes under the write lock, without looking again.
 * finding: add_once 12 16 */
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int present[64];

static void add_once(int key) {
    int found;

    pthread_rwlock_rdlock(&lock);
    found = present[key];
    pthread_rwlock_unlock(&lock);
    if (!found) {
        pthread_rwlock_wrlock(&lock);
        present[key] = 1;
        pthread_rwlock_unlock(&lock);
    }
}

static void *worker(void *unused) {
    (void)unused;
    for (int i = 0; i < 2000; i++) {
        add_once(i % 64);
        if (i % 64 == 63) {
            pthread_rwlock_wrlock(&lock);
            for (int key = 0; key < 64; key++)
                present[key] = 0;
            pthread_rwlock_unlock(&lock);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
