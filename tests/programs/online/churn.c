// Objects with locks of their own come and go, N times in each thread; now and then somebody
// withdraws, which is wrong. Everything else is right.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct node { pthread_mutex_t lock; long a, b; };
#ifdef SAY
#define say(text) (puts(text), fflush(stdout))
#else
#define say(text) (void)0
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node *shared[64];
static long balance;

static __attribute__((noinline)) void withdraw(void) {
    pthread_mutex_lock(&lock);
    long seen = balance;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    balance = seen - 1;
    pthread_mutex_unlock(&lock);
}

static __attribute__((noinline)) void renew(int at) {
    struct node *node = malloc(sizeof *node);
    pthread_mutex_init(&node->lock, 0);
    node->a = node->b = at;
    pthread_mutex_lock(&lock);
    struct node *old = shared[at];
    shared[at] = node;
    pthread_mutex_unlock(&lock);
    free(old);
}

static __attribute__((noinline)) void use(int at) {
    pthread_mutex_lock(&lock);
    struct node *node = shared[at];
    if (node) {
        pthread_mutex_lock(&node->lock);
        node->a++;
        node->b++;
        pthread_mutex_unlock(&node->lock);
    }
    pthread_mutex_unlock(&lock);
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    for (int i = 0; i < N; i++) {
        seed = seed * 1103515245 + 12345;
        int at = seed >> 16 & 63;
        if (i % 4 == 0) renew(at); else use(at);
        if (i % 100 == 0) withdraw();
    }
    return 0;
}

int main(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)(i + 1));
    say("begun");
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    say("done");
    return 0;
}
