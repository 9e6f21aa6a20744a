/* C, locks and lists: a hash table with chained buckets and a mutex for each group of them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 4096, GROUPS = 64, THREADS = 2 };

struct node { unsigned long key, value; struct node *next; };
static struct node *buckets[BUCKETS];
static pthread_mutex_t locks[GROUPS];
static long rounds;

static struct node *find(unsigned long key) {
    struct node *node = buckets[key % BUCKETS];
    while (node && node->key != key) node = node->next;
    return node;
}

static void *worker(void *argument) {
    unsigned long state = (unsigned long)argument * 88172645463325252ul + 1;
    for (long round = 0; round < rounds; round++) {
        state ^= state << 13; state ^= state >> 7; state ^= state << 17;
        unsigned long key = (state >> 20) % 20000;
        pthread_mutex_t *lock = &locks[key % GROUPS];
        pthread_mutex_lock(lock);
        struct node *node = find(key);
        if (node) {
            node->value += round;
            if (state % 64 == 0) {
                struct node **link = &buckets[key % BUCKETS];
                while (*link != node) link = &(*link)->next;
                *link = node->next;
                free(node);
            }
        } else {
            node = malloc(sizeof *node);
            node->key = key;
            node->value = round;
            node->next = buckets[key % BUCKETS];
            buckets[key % BUCKETS] = node;
        }
        pthread_mutex_unlock(lock);
    }
    return NULL;
}

int main(int count, char **arguments) {
    rounds = 100000 * (count > 1 ? atol(arguments[1]) : 1);
    pthread_t threads[THREADS];
    for (int group = 0; group < GROUPS; group++) pthread_mutex_init(&locks[group], NULL);
    for (long thread = 0; thread < THREADS; thread++)
        pthread_create(&threads[thread], NULL, worker, (void *)(thread + 1));
    for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);
    unsigned long sum = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        for (struct node *node = buckets[bucket]; node; node = node->next) sum += node->key;
    printf("%lu\n", sum);
    return 0;
}
