/* The operation that takes one off also says whether it was the last. */
#include <pthread.h>
#include <stdatomic.h>

static struct object {
    atomic_int references;
} objects[500];

static int drop(struct object *object)
{
    return atomic_fetch_sub(&object->references, 1) == 1;
}

static void *worker(void *unused)
{
    long last = 0;

    (void)unused;
    for (int i = 0; i < 500; i++)
        last += drop(&objects[i]);
    return (void *)last;
}

int main(void)
{
    pthread_t threads[2];
    void *last;
    long freed = 0;

    for (int i = 0; i < 500; i++)
        objects[i].references = 2;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &last);
        freed += (long)last;
    }
    return freed != 500;
}
