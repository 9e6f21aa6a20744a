// Visits all elements under one lock.
#include <mutex>
#include <thread>
#include <vector>

struct List {
    std::mutex lock;
    std::vector<int> items;

    int sum() {
        std::lock_guard<std::mutex> guard(lock);
        int sum = 0;
        for (int item : items)
            sum += item;
        return sum;
    }

    void change(int item) {
        std::lock_guard<std::mutex> guard(lock);
        if (items.size() == 4)
            items.clear();
        items.push_back(item);
    }
};

int main() {
    List list;
    auto use = [&] {
        for (int i = 0; i < 1000; i++) {
            list.change(i);
            volatile int seen = list.sum();
            (void)seen;
        }
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
}
