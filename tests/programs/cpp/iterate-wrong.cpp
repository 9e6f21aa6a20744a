// Counts the elements first and visits them one by one, each under the lock: the list may have
// changed in between.
// finding: List::sum() 14 19
#include <mutex>
#include <thread>
#include <vector>

struct List {
    std::mutex lock;
    std::vector<int> items;

    int sum() {
        lock.lock();
        size_t count = items.size();
        lock.unlock();
        int sum = 0;
        for (size_t i = 0; i < count; i++) {
            std::lock_guard<std::mutex> guard(lock);
            sum += i < items.size() ? items[i] : 0;
        }
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
