// flags: -std=c++17
// Atomics, reference counts, promises and futures: messages from thread to thread.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

struct Table {
    std::vector<int> values;
};

static std::atomic<int> largest{0}, users{0};
static std::atomic<Table *> published{nullptr};
static std::atomic_flag busy = ATOMIC_FLAG_INIT;
static long spun;

static void raise(int value) {
    int now = largest.load();
    while (now < value && !largest.compare_exchange_weak(now, value)) {
    }
}

static void spin() {
    while (busy.test_and_set(std::memory_order_acquire))
        std::this_thread::yield();
    spun++;
    busy.clear(std::memory_order_release);
}

static void publish() {
    auto made = std::make_unique<Table>();
    made->values.assign(10, 7);
    published.store(made.release(), std::memory_order_release);
}

static int use() {
    Table *table = published.load(std::memory_order_acquire);
    return table ? std::accumulate(table->values.begin(), table->values.end(), 0) : 0;
}

// Each thread is one call of this, so nobody expects it to be atomic.
static int work(std::shared_ptr<const std::vector<int>> input, std::shared_future<int> wanted, int own) {
    users++;
    for (int i = 0; i < 200; i++) {
        raise(i + own);
        spin();
        use();
    }
    return std::accumulate(input->begin(), input->end(), own) + wanted.get();
}

int main() {
    auto input = std::make_shared<const std::vector<int>>(100, 1);
    std::promise<int> promise;
    std::shared_future<int> wanted = promise.get_future().share();
    auto one = std::async(std::launch::async, work, input, wanted, 0);
    std::packaged_task<int(int)> task(std::bind(work, input, wanted, std::placeholders::_1));
    auto two = task.get_future();
    std::thread runner(std::move(task), 1);
    input.reset();
    publish();
    promise.set_value(1000);
    int sum = one.get() + two.get();
    runner.join();
    delete published.load();
    return sum != 2201 || largest != 200 || users != 2 || spun != 400;
}
