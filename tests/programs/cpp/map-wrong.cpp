// Looks for the key under one lock, and inserts it under another.
// finding: Numbers::number(int) 15 20
#include <map>
#include <mutex>
#include <thread>

struct Numbers {
    std::mutex lock;
    std::map<int, int> numbers;

    int number(int key) {
        bool known;
        {
            std::lock_guard<std::mutex> guard(lock);
            known = numbers.count(key) != 0;
        }
        if (known)
            return key;
        std::lock_guard<std::mutex> guard(lock);
        numbers[key] = key;
        return -1;
    }

    void forget() {
        std::lock_guard<std::mutex> guard(lock);
        numbers.clear();
    }
};

int main() {
    Numbers numbers;
    auto use = [&] {
        for (int i = 0; i < 800; i++) {
            numbers.number(i % 4);
            if (i % 4 == 3)
                numbers.forget();
        }
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
}
