/* Fibers that take turns on two threads: what one has read is out of date when it writes.
 * finding: spend 28 31 */
#include <pthread.h>
#include <ucontext.h>

void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);

enum { TURNS = 100, STACK = 1 << 16 };
struct fiber {
    ucontext_t context;
    void *name;
    char stack[STACK];
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long count;

static void go(struct fiber *from, struct fiber *to) {
    __tsan_switch_to_fiber(to->name, 0);
    swapcontext(&from->context, &to->context);
}

static void spend(void) {
    long seen;
    pthread_mutex_lock(&lock);
    seen = count;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    count = seen + 1;
    pthread_mutex_unlock(&lock);
}

static __thread struct fiber *fibers;

static void body(int own) {
    struct fiber *all = fibers;
    for (int i = 0; i <= TURNS; i++) {
        spend();
        go(&all[own], &all[0]);
    }
}

static void *worker(void *memory) {
    fibers = memory;
    fibers[0].name = __tsan_get_current_fiber();
    for (int own = 1; own < 3; own++) {
        struct fiber *fiber = &fibers[own];
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = STACK;
        makecontext(&fiber->context, (void (*)(void))body, 1, own);
        fiber->name = __tsan_create_fiber(0);
    }
    for (int i = 0; i <= TURNS; i++)
        for (int own = 1; own < 3; own++)
            go(&fibers[0], &fibers[own]);
    for (int own = 1; own < 3; own++)
        __tsan_destroy_fiber(fibers[own].name);
    return NULL;
}

static struct fiber memory[2][3];

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, memory[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
