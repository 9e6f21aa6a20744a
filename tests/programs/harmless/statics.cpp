// Work before main and after it.
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

static std::mutex lock;
static std::map<std::string, int> words;
static std::atomic<int> started;

static int add(const std::string &word) {
    std::lock_guard<std::mutex> guard(lock);
    return ++words[word];
}

struct Early {
    std::thread worker;
    int seen;
    Early() : worker([] { started = add("worker"); }), seen(add("early")) {
        worker.join();
        std::printf("constructed %d %d\n", seen, started.load());
    }
    ~Early() { std::printf("destructed %d\n", add("early")); }
};

static Early early;
static thread_local Early *mine;

static int thrower(int depth) {
    if (depth == 0)
        throw std::runtime_error("on purpose");
    return thrower(depth - 1) + add("never");
}

int main() {
    mine = &early;
    try {
        thrower(100);
    } catch (const std::exception &error) {
        std::printf("caught %s\n", error.what());
    }
    std::thread([] {
        try {
            thrower(10);
        } catch (const std::exception &error) {
            std::printf("caught in a thread: %s\n", error.what());
        }
    }).join();
    return mine->seen + 3;
}
