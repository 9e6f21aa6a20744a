// flags: -std=c++17
// Looks and raises as a writer; who only looks is a reader.
#include <mutex>
#include <shared_mutex>
#include <thread>

class Highest {
    std::shared_mutex lock;
    int highest = 0;

  public:
    void raise(int value) {
        std::unique_lock<std::shared_mutex> guard(lock);
        if (value > highest)
            highest = value;
    }

    int get() {
        std::shared_lock<std::shared_mutex> guard(lock);
        return highest;
    }
};

int main() {
    Highest highest;
    auto use = [&] {
        for (int i = 0; i < 500; i++) {
            highest.raise(i);
            highest.get();
        }
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
    return highest.get() != 499;
}
