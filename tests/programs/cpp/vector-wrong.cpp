// A copy that asks for the size under one lock and copies under another.
// finding: Vector::Vector(Vector&) 15 19
#include <mutex>
#include <thread>

struct Vector {
    std::mutex lock;
    int count = 0;
    int items[16] = {};

    Vector() = default;

    Vector(Vector &other) {
        other.lock.lock();
        count = other.count;
        other.lock.unlock();
        std::lock_guard<std::mutex> guard(other.lock);
        for (int i = 0; i < count; i++)
            items[i] = i < other.count ? other.items[i] : 0;
    }

    void change(int item) {
        std::lock_guard<std::mutex> guard(lock);
        count = count == 16 ? 0 : count + 1;
        items[item % 16] = item;
    }
};

int main() {
    Vector vector;
    auto use = [&] {
        for (int i = 0; i < 1000; i++) {
            vector.change(i);
            Vector copy(vector);
            volatile int seen = copy.items[i % 16];
            (void)seen;
        }
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
}
