/* Looks and changes under the write lock. */
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int present[64];
static int inserted;

static void add_once(int key) {
    pthread_rwlock_wrlock(&lock);
    if (!present[key]) {
        present[key] = 1;
        inserted++;
    }
    pthread_rwlock_unlock(&lock);
}

static int look(int key) {
    int found;

    pthread_rwlock_rdlock(&lock);
    found = present[key];
    pthread_rwlock_unlock(&lock);
    return found;
}

static void *worker(void *unused) {
    (void)unused;
    for (int i = 0; i < 2000; i++) {
        add_once(i % 64);
        look((i + 7) % 64);
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
