// Looks at the condition again each time it wakes, under the lock that guards it.
#include <condition_variable>
#include <mutex>
#include <thread>

struct Queue {
    std::mutex lock;
    std::condition_variable changed;
    int items = 0;

    void put() {
        std::lock_guard<std::mutex> guard(lock);
        items++;
        changed.notify_all();
    }

    void take() {
        std::unique_lock<std::mutex> guard(lock);
        while (items == 0)
            changed.wait(guard);
        items--;
    }

    void take_if() {
        std::unique_lock<std::mutex> guard(lock);
        changed.wait(guard, [this] { return items > 0; });
        items--;
    }
};

int main() {
    Queue queue;
    std::thread one([&] {
        for (int i = 0; i < 500; i++)
            queue.take();
    });
    std::thread two([&] {
        for (int i = 0; i < 500; i++)
            queue.take_if();
    });
    for (int i = 0; i < 1000; i++)
        queue.put();
    one.join();
    two.join();
    return queue.items;
}
