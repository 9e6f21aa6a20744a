// flags: -std=c++17
// Looks as a reader and raises as a writer: another may have raised it higher in between.
// finding: Highest::raise(int) 17 20
#include <mutex>
#include <shared_mutex>
#include <thread>

class Highest {
    std::shared_mutex lock;
    int highest = 0;

  public:
    void raise(int value) {
        int seen;
        {
            std::shared_lock<std::shared_mutex> guard(lock);
            seen = highest;
        }
        std::unique_lock<std::shared_mutex> guard(lock);
        highest = value > seen ? value : seen;
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
}
