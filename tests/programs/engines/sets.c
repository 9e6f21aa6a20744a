/* Atomic sets: an object on the heap, or a static, is one, and a function that touches it is a unit of
 * work on it. All functions count in two other objects, one before and one after, so that none of them
 * is atomic as a whole; only the last two split what belongs together. */
#include <pthread.h>
#include <stdlib.h>

struct object {
    pthread_mutex_t lock;
    long one, two;
};

static struct object *before, *after, *object;
static struct {
    pthread_mutex_t lock;
    struct {
        long sum;
    } parts[2];
} fixed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What is accessed under no lock before the threads start is left out by itself: this holds one. */
static struct object *make(void)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct object *made = malloc(sizeof *made);

    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_lock(&making);
    made->one = 1;
    made->two = made->one + 1;
    pthread_mutex_unlock(&making);
    return made;
}

static void count(struct object *counter)
{
    pthread_mutex_lock(&counter->lock);
    counter->one++;
    pthread_mutex_unlock(&counter->lock);
}

static void both(void)
{
    count(before);
    pthread_mutex_lock(&object->lock);
    object->one++;
    object->two++;
    pthread_mutex_unlock(&object->lock);
    count(after);
}

static void split_heap(void)
{
    count(before);
    pthread_mutex_lock(&object->lock);
    object->one++;
    pthread_mutex_unlock(&object->lock);
    pthread_mutex_lock(&object->lock);
    object->two++;
    pthread_mutex_unlock(&object->lock);
    count(after);
}

static void split_static(void)
{
    count(before);
    pthread_mutex_lock(&fixed.lock);
    fixed.parts[0].sum++;
    pthread_mutex_unlock(&fixed.lock);
    pthread_mutex_lock(&fixed.lock);
    fixed.parts[1].sum++;
    pthread_mutex_unlock(&fixed.lock);
    count(after);
}

static void *worker(void *unused)
{
    (void)unused;
    for (int i = 0; i < 200; i++) {
        both();
        split_heap();
        split_static();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];

    before = make();
    after = make();
    object = make();
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
