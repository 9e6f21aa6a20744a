/* Takes one off and then asks whether none is left: two threads may both see zero.
 * finding: drop 12 13 */
#include <pthread.h>
#include <stdatomic.h>

static struct object {
    atomic_int references;
} objects[500];

static int drop(struct object *object)
{
    atomic_fetch_sub(&object->references, 1);
    return atomic_load(&object->references) == 0;
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

    for (int i = 0; i < 500; i++)
        objects[i].references = 2;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
