// Looks whether there is a value under the lock, and makes one under the lock again.
// finding: Cache::get() 16 21
#include <memory>
#include <mutex>
#include <thread>

struct Cache {
    std::mutex lock;
    std::shared_ptr<int> value;
    int made = 0;

    int get() {
        bool empty;
        {
            std::lock_guard<std::mutex> guard(lock);
            empty = made == 0;
        }
        if (!empty)
            return 1;
        std::lock_guard<std::mutex> guard(lock);
        made = made + 1;
        return 0;
    }

    void drop() {
        std::lock_guard<std::mutex> guard(lock);
        made = 0;
    }
};

int main() {
    Cache cache;
    auto use = [&] {
        for (int i = 0; i < 2000; i++) {
            cache.get();
            cache.drop();
        }
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
}
