/* Asks how long the other string is and copies it while nobody can change it. */
#include <pthread.h>

struct string {
    pthread_mutex_t lock;
    int length;
    char text[4096];
};

static struct string from = {PTHREAD_MUTEX_INITIALIZER, 0, ""};
static struct string to = {PTHREAD_MUTEX_INITIALIZER, 0, ""};

static void set_length(struct string *string, int length)
{
    pthread_mutex_lock(&string->lock);
    string->length = length;
    string->text[length % 64] = 'x';
    pthread_mutex_unlock(&string->lock);
}

static void append(struct string *string, struct string *other)
{
    int length;

    pthread_mutex_lock(&string->lock);
    pthread_mutex_lock(&other->lock);
    length = other->length;
    string->length = 0;
    string->length += length <= other->length ? length : 0;
    pthread_mutex_unlock(&other->lock);
    pthread_mutex_unlock(&string->lock);
}

static void *shortener(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++)
        set_length(&from, i % 64);
    return NULL;
}

static void *appender(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++)
        append(&to, &from);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];

    pthread_create(&threads[0], NULL, shortener, NULL);
    pthread_create(&threads[1], NULL, appender, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
