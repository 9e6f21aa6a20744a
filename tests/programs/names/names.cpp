// The same mistake with data of every kind: what is it called?
#include <memory>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

struct Account {
    int number = 0;
    long balance = 0;
};

struct Bank {
    std::mutex mutex;
    Account accounts[3];
};

static std::mutex lock;
static long total;
static Bank bank;
static pthread_barrier_t start;

static void add(std::mutex &mutex, long &value) {
    mutex.lock();
    long seen = value;
    mutex.unlock();
    mutex.lock();
    value = seen + 1;
    mutex.unlock();
}

static void global() { add(lock, total); }

static void field() { add(bank.mutex, bank.accounts[2].balance); }

static void hidden() {
    static long calls;
    add(lock, calls);
}

static void shared(Account &account) { add(lock, account.balance); }

static void plain(long *values) { add(lock, values[2]); }

static void element(std::vector<Account> &list) { add(lock, list[1].balance); }

static void local(Account &account) { add(lock, account.balance); }

static void initialised(pthread_mutex_t *mutex, long &value) {
    pthread_mutex_lock(mutex);
    long seen = value;
    pthread_mutex_unlock(mutex);
    pthread_mutex_lock(mutex);
    value = seen + 1;
    pthread_mutex_unlock(mutex);
}

int main() {
    auto account = std::make_shared<Account>();
    long *values = new long[4]();
    std::vector<Account> list(4);
    Account mine;
    pthread_mutex_t *mutex = static_cast<pthread_mutex_t *>(malloc(sizeof *mutex));
    pthread_mutex_init(mutex, nullptr);
    long guarded = 0;
    pthread_barrier_init(&start, nullptr, 2);
    auto work = [&](const char *name) {
        pthread_setname_np(pthread_self(), name);
        pthread_barrier_wait(&start);
        for (int i = 0; i < 50; i++) {
            global();
            field();
            hidden();
            shared(*account);
            plain(values);
            element(list);
            local(mine);
            initialised(mutex, guarded);
        }
    };
    std::thread teller(work, "teller");
    std::thread clerk(work, "clerk");
    teller.join();
    clerk.join();
    delete[] values;
    free(mutex);
}
