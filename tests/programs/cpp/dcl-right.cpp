// Double-checked locking with an acquiring load: looks, takes the lock, and looks again.
#include <atomic>
#include <mutex>
#include <thread>

struct Settings {
    int size = 42;
};

struct Lazy {
    std::atomic<Settings *> made{nullptr};
    std::mutex lock;

    ~Lazy() { delete made.load(); }

    int get() {
        Settings *settings = made.load(std::memory_order_acquire);
        if (!settings) {
            std::lock_guard<std::mutex> guard(lock);
            settings = made.load(std::memory_order_relaxed);
            if (!settings) {
                settings = new Settings;
                made.store(settings, std::memory_order_release);
            }
        }
        return settings->size;
    }
};

int main() {
    for (int i = 0; i < 50; i++) {
        Lazy lazy;
        auto use = [&] { return lazy.get(); };
        std::thread one(use), two(use), three(use);
        one.join();
        two.join();
        three.join();
    }
}
