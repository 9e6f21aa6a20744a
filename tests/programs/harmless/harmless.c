/* Things that programs do and that a runtime can spoil: `harmless MODE`. What each prints, and how
 * it ends, must be the same with and without the runtime. No mode has a violation. */
#define _GNU_SOURCE
#include <atomsan.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <ucontext.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static atomic_long shared;
static long guarded;
static char **arguments;

static void *count(void *turns) {
    ATOMSAN_NOT_ATOMIC();
    for (long i = 0; i < (long)turns; i++) {
        atomic_fetch_add(&shared, 1);
        pthread_mutex_lock(&lock);
        guarded++;
        pthread_mutex_unlock(&lock);
    }
    return turns;
}

static void in_threads(int number, long turns) {
    ATOMSAN_NOT_ATOMIC();
    pthread_t threads[16];
    for (int i = 0; i < number; i++)
        pthread_create(&threads[i], NULL, count, (void *)turns);
    for (int i = 0; i < number; i++)
        pthread_join(threads[i], NULL);
}

static void report(const char *what) {
    ATOMSAN_NOT_ATOMIC();
    printf("%s: %ld %ld\n", what, atomic_load(&shared), guarded);
    fflush(stdout);
}

static volatile atomic_int stop;

static void *count_for_ever(void *unused) {
    ATOMSAN_NOT_ATOMIC();
    while (!atomic_load(&stop)) {
        count((void *)10);
        usleep(100);
    }
    return unused;
}

static int fork_with_threads(void) {
    ATOMSAN_NOT_ATOMIC();
    pthread_t thread;
    int status = 0;
    pthread_create(&thread, NULL, count_for_ever, NULL);
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&lock); /* so that it is not held by the other thread in the child */
        pid_t child = fork();
        pthread_mutex_unlock(&lock);
        if (child == 0) {
            atomic_store(&shared, 0);
            guarded = 0;
            in_threads(2, 100);
            _exit(atomic_load(&shared) == 200 && guarded == 200 ? 40 + i : 1);
        }
        waitpid(child, &status, 0);
        printf("child %d: %d\n", i, WEXITSTATUS(status));
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    return 0;
}

static int exec_others(void) {
    ATOMSAN_NOT_ATOMIC();
    int status;
    in_threads(2, 100);
    fflush(stdout);
    if (fork() == 0) {
        execl("/bin/echo", "echo", "one", "two", NULL);
        _exit(1);
    }
    wait(&status);
    if (fork() == 0) {
        execvp("no-such-program-anywhere", arguments);
        _exit(errno == ENOENT ? 9 : 1);
    }
    wait(&status);
    printf("not found: %d\n", WEXITSTATUS(status));
    fflush(stdout);
    if (vfork() == 0)
        _exit(11);
    wait(&status);
    printf("vfork: %d\n", WEXITSTATUS(status));
    printf("system: %d\n", WEXITSTATUS(system("exit 12")));
    FILE *pipe = popen("echo from a pipe", "r");
    char line[64] = "";
    printf("popen: %s", fgets(line, sizeof line, pipe));
    printf("closed: %d\n", pclose(pipe));
    pid_t child;
    char *const echo[] = {"echo", "spawned", NULL};
    fflush(stdout);
    posix_spawn(&child, "/bin/echo", NULL, NULL, echo, environ);
    waitpid(child, &status, 0);
    return 0;
}

static int exec_self(void) {
    in_threads(2, 100);
    report("before");
    execl(arguments[0], arguments[0], "plain", NULL);
    return 1;
}

static int plain(void) {
    in_threads(4, 500);
    report("plain");
    return 0;
}

static int status(void) {
    in_threads(2, 100);
    return 3;
}

static int aborts(void) {
    in_threads(2, 100);
    abort();
}

static int crashes(void) {
    in_threads(2, 100);
    signal(SIGSEGV, SIG_DFL);
    *(volatile int *)8 = 1;
    return 0;
}

static int killed(void) {
    in_threads(2, 100);
    kill(getpid(), SIGKILL);
    pause();
    return 0;
}

static pthread_key_t keys[3];

static void destroyed(void *value) {
    ATOMSAN_NOT_ATOMIC();
    static int again;
    printf("destroyed %s\n", (char *)value);
    atomic_fetch_add(&shared, 1);
    /* libc calls destructors in four rounds */
    if (again++ < 2)
        pthread_setspecific(keys[0], "again");
}

static void *with_keys(void *unused) {
    pthread_setspecific(keys[0], "first");
    count((void *)10);
    return unused;
}

static int destructors(void) {
    ATOMSAN_NOT_ATOMIC();
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_key_create(&keys[i], destroyed);
    pthread_create(&thread, NULL, with_keys, NULL);
    pthread_join(thread, NULL);
    report("destructors");
    return 0;
}

static void *detached_one(void *unused) {
    ATOMSAN_NOT_ATOMIC();
    pthread_detach(pthread_self());
    count((void *)10);
    atomic_fetch_add(&stop, 1);
    return unused;
}

static int detached(void) {
    ATOMSAN_NOT_ATOMIC();
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 50; i++) {
        pthread_create(&thread, NULL, detached_one, NULL);
        pthread_create(&thread, &attributes, count, (void *)10);
    }
    while (atomic_load(&stop) < 50 || atomic_load(&shared) < 1000)
        usleep(1000);
    pthread_mutex_lock(&lock);
    while (guarded < 1000) {
        pthread_mutex_unlock(&lock);
        usleep(1000);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    report("detached");
    return 0;
}

static pthread_barrier_t barrier;

static void *meet(void *unused) {
    ATOMSAN_NOT_ATOMIC();
    pthread_barrier_wait(&barrier);
    return count(unused);
}

static int many(void) {
    ATOMSAN_NOT_ATOMIC();
    enum { MANY = 2200 };
    static pthread_t threads[MANY];
    pthread_attr_t attributes;
    int started = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_barrier_init(&barrier, NULL, MANY);
    for (int i = 0; i < MANY; i++)
        started += pthread_create(&threads[i], &attributes, meet, (void *)1) == 0;
    printf("started %d\n", started);
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
    report("many");
    return 0;
}

static long descend(long depth) {
    if (depth == 0)
        return atomic_load(&shared);
    long below = descend(depth - 1);
    guarded += depth & 1;
    return below + 1;
}

static void *deep(void *depth) {
    ATOMSAN_NOT_ATOMIC();
    long reached = descend((long)depth);
    printf("depth %ld\n", reached);
    return NULL;
}

static int stacks(void) {
    ATOMSAN_NOT_ATOMIC();
    pthread_attr_t attributes;
    pthread_t thread;
    size_t sizes[] = {PTHREAD_STACK_MIN, 32 << 10, 1 << 20, 1ul << 30, 8ul << 30};
    long depths[] = {10, 50, 1000, 100000, 10};
    pthread_attr_init(&attributes);
    for (int i = 0; i < 5; i++) {
        pthread_attr_setstacksize(&attributes, sizes[i]);
        int failed = pthread_create(&thread, &attributes, deep, (void *)depths[i]);
        if (failed)
            printf("failed %d\n", failed);
        else
            pthread_join(thread, NULL);
    }
    return 0;
}

static atomic_long handled;
static long plain_in_handler;

static void handler(int signal) {
    ATOMSAN_NOT_ATOMIC();
    int before = errno;
    atomic_fetch_add(&handled, 1);
    atomic_fetch_add(&shared, signal);
    plain_in_handler++;
    errno = before;
}

static void interrupt_often(void) {
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
}

static void *nothing(void *unused) {
    return unused;
}

/* Signals that come while a thread starts, whose first steps are not its own. */
static int starts(void) {
    ATOMSAN_NOT_ATOMIC();
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    for (int turn = 0; turn < 3000; turn++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL)) return 1;
        for (int wait = turn % 30; wait > 0; wait--) sched_yield();
        for (int times = 0; times < 4; times++) pthread_kill(thread, SIGUSR1);
        pthread_join(thread, NULL);
    }
    puts("started");
    return 0;
}

static void *print_mask(void *unused) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int signal = 1; signal <= 31; signal++) putchar(sigismember(&mask, signal) ? '1' : '0');
    putchar('\n');
    return unused;
}

/* Which signals threads get: those of the thread that starts them, or what their attributes say. */
static int masks(void) {
    ATOMSAN_NOT_ATOMIC();
    sigset_t sets[3];
    pthread_attr_t attributes;
    sigemptyset(&sets[0]);
    sigemptyset(&sets[1]);
    sigaddset(&sets[1], SIGUSR2);
    sigfillset(&sets[2]);
    for (int own = 0; own < 3; own++) {
        pthread_sigmask(SIG_SETMASK, &sets[own], NULL);
        for (int asked = -1; asked < 3; asked++) {
            pthread_t thread;
            pthread_attr_init(&attributes);
            if (asked >= 0) pthread_attr_setsigmask_np(&attributes, &sets[asked]);
            if (pthread_create(&thread, &attributes, print_mask, NULL)) return 1;
            pthread_join(thread, NULL);
            pthread_attr_destroy(&attributes);
            print_mask(NULL);
        }
    }
    return 0;
}

static int signals(void) {
    ATOMSAN_NOT_ATOMIC();
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    pthread_t thread;
    sigaction(SIGALRM, &action, NULL);
    interrupt_often();
    pthread_create(&thread, NULL, count_for_ever, NULL);
    while (atomic_load(&handled) < 100)
        count((void *)10);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    signal(SIGALRM, SIG_IGN);
    puts("handled");
    return 0;
}

static sigjmp_buf back;
static volatile sig_atomic_t may_jump;

static void jump(int signal) {
    ATOMSAN_NOT_ATOMIC();
    (void)signal;
    atomic_fetch_add(&handled, 1);
    if (may_jump) {
        may_jump = 0;
        siglongjmp(back, 1);
    }
}

static void spin_on_atomics(void) {
    ATOMSAN_NOT_ATOMIC();
    for (;;) {
        atomic_fetch_add(&shared, 1);
        plain_in_handler++;
    }
}

static int jumps(void) {
    ATOMSAN_NOT_ATOMIC();
    struct sigaction action = {.sa_handler = jump};
    static volatile int times;
    sigaction(SIGALRM, &action, NULL);
    interrupt_often();
    sigsetjmp(back, 1);
    if (times++ < 100) {
        may_jump = 1;
        spin_on_atomics();
    }
    signal(SIGALRM, SIG_IGN);
    printf("jumped %d\n", times);
    in_threads(2, 100);
    printf("guarded %ld\n", guarded);
    return 0;
}

static void unlock(void *mutex) {
    pthread_mutex_unlock(mutex);
}

static void *wait_for_ever(void *unused) {
    ATOMSAN_NOT_ATOMIC();
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    atomic_store(&handled, 1);
    for (;;)
        pthread_cond_wait(&condition, &lock);
    pthread_cleanup_pop(1);
    return unused;
}

static void *sleep_for_ever(void *unused) {
    atomic_store(&handled, 2);
    for (;;)
        sleep(100);
    return unused;
}

static void *spin_for_ever(void *unused) {
    ATOMSAN_NOT_ATOMIC();
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    atomic_store(&handled, 3);
    for (;;)
        atomic_fetch_add(&shared, 1);
    return unused;
}

static int cancels(void) {
    ATOMSAN_NOT_ATOMIC();
    void *(*routines[])(void *) = {wait_for_ever, sleep_for_ever, spin_for_ever};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, routines[i], NULL);
        while (atomic_load(&handled) != i + 1)
            usleep(100);
        usleep(1000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("cancelled %d\n", result == PTHREAD_CANCELED);
        count((void *)10);
    }
    return 0;
}

static int descriptors(void) {
    ATOMSAN_NOT_ATOMIC();
    char name[] = "/tmp/harmless-XXXXXX", text[16] = "";
    in_threads(2, 10);
    int first = open("/dev/null", O_RDONLY);
    printf("first %d\n", first);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    int file = mkstemp(name);
    unlink(name);
    if (write(file, "untouched", 9) != 9)
        return 1;
    in_threads(4, 20000);
    printf("descriptor %d, size %ld, ", file, (long)lseek(file, 0, SEEK_END));
    printf("%s\n", pread(file, text, 15, 0) == 9 ? text : "changed");
    report("descriptors");
    return 0;
}

static int places(void) {
    ATOMSAN_NOT_ATOMIC();
    char here[PATH_MAX];
    if (chdir("/") != 0)
        return 1;
    printf("%s\n", getcwd(here, sizeof here));
    in_threads(2, 100);
    clearenv();
    setenv("ONLY", "this", 1);
    for (char **entry = environ; *entry; entry++)
        puts(*entry);
    report("places");
    return 0;
}

static int in_a_jail(void) {
    ATOMSAN_NOT_ATOMIC();
    char name[] = "/tmp/jail-XXXXXX";
    in_threads(2, 100);
    if (!mkdtemp(name) || chroot(name) != 0 || chdir("/") != 0)
        puts("no jail");
    printf("%d\n", access("/bin", F_OK));
    in_threads(2, 100);
    report("jail");
    return 0;
}

static void said(void) {
    puts("handler");
    fflush(stdout);
}

static int quick(void) {
    at_quick_exit(said);
    in_threads(2, 100);
    report("quick");
    quick_exit(5);
}

static void *exits(void *unused) {
    exit(6);
    return unused;
}

static int exit_in_thread(void) {
    ATOMSAN_NOT_ATOMIC();
    pthread_t thread;
    atexit(said);
    pthread_create(&thread, NULL, count_for_ever, NULL);
    pthread_create(&thread, NULL, exits, NULL);
    for (;;)
        pause();
}

static void *last(void *unused) {
    usleep(10000);
    count((void *)100);
    puts("last");
    return unused;
}

static int main_leaves(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, last, NULL);
    pthread_exit(NULL);
}

static mtx_t c11_lock;
static once_flag flag = ONCE_FLAG_INIT;

static void once(void) {
    mtx_init(&c11_lock, mtx_plain);
    atomic_fetch_add(&shared, 1);
}

static int c11_count(void *turns) {
    ATOMSAN_NOT_ATOMIC();
    call_once(&flag, once);
    for (long i = 0; i < (long)turns; i++) {
        mtx_lock(&c11_lock);
        guarded++;
        mtx_unlock(&c11_lock);
        thrd_yield();
    }
    return -(int)(long)turns;
}

static int c11(void) {
    ATOMSAN_NOT_ATOMIC();
    thrd_t threads[3];
    for (long i = 0; i < 3; i++)
        printf("create %d\n", thrd_create(&threads[i], c11_count, (void *)(i + 10)) == thrd_success);
    for (int i = 0; i < 3; i++) {
        int result = 0;
        thrd_join(threads[i], &result);
        printf("join %d\n", result);
    }
    report("c11");
    return 0;
}

static int pages(void) {
    for (int i = 0; i < 50; i++) {
        long *map = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int at = 0; at < 8192; at += 512)
            map[at] += at;
        map = mremap(map, 1 << 16, 1 << 18, MREMAP_MAYMOVE);
        guarded += map[512] + map[8192];
        munmap(map, 1 << 18);
    }
    errno = 0;
    void *none = mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%d %d\n", none == MAP_FAILED, errno == EINVAL);
    void *aligned = valloc(100), *other = aligned_alloc(64, 128);
    printf("%d %d\n", (long)aligned % 4096 == 0, (long)other % 64 == 0);
    free(aligned);
    free(other);
    report("pages");
    return 0;
}

static ucontext_t contexts[2];

static void coroutine(void) {
    ATOMSAN_NOT_ATOMIC();
    for (int i = 0; i < 100; i++) {
        count((void *)1);
        swapcontext(&contexts[1], &contexts[0]);
    }
}

static int coroutines(void) {
    ATOMSAN_NOT_ATOMIC();
    static char stack[64 << 10];
    getcontext(&contexts[1]);
    contexts[1].uc_stack.ss_sp = stack;
    contexts[1].uc_stack.ss_size = sizeof stack;
    contexts[1].uc_link = &contexts[0];
    makecontext(&contexts[1], coroutine, 0);
    for (int i = 0; i < 100; i++) {
        count((void *)1);
        swapcontext(&contexts[0], &contexts[1]);
    }
    in_threads(2, 100);
    report("coroutines");
    return 0;
}

static int library(void) {
    ATOMSAN_NOT_ATOMIC();
    void *handle = dlopen(arguments[2], RTLD_NOW);
    if (!handle)
        return 1;
    void *(*work)(void *) = (void *(*)(void *))dlsym(handle, "work");
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)500);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("worked %ld\n", *(long *)dlsym(handle, "total"));
    return dlclose(handle);
}

static const struct {
    const char *name;
    int (*run)(void);
} modes[] = {
    {"plain", plain},
    {"status", status},
    {"fork", fork_with_threads},
    {"exec", exec_others},
    {"exec-self", exec_self},
    {"abort", aborts},
    {"crash", crashes},
    {"kill", killed},
    {"destructors", destructors},
    {"detached", detached},
    {"many", many},
    {"stacks", stacks},
    {"signals", signals},
    {"starts", starts},
    {"masks", masks},
    {"jumps", jumps},
    {"cancel", cancels},
    {"descriptors", descriptors},
    {"places", places},
    {"jail", in_a_jail},
    {"quick", quick},
    {"exit-in-thread", exit_in_thread},
    {"main-leaves", main_leaves},
    {"c11", c11},
    {"pages", pages},
    {"coroutines", coroutines},
    {"library", library},
};

int main(int number, char **given) {
    arguments = given;
    for (size_t i = 0; number > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(given[1], modes[i].name) == 0)
            return modes[i].run();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        puts(modes[i].name);
    return 0;
}
