// Decides whether to wait by what it saw before: another may have taken the item since.
// finding: Queue::take() 28 32
#include <condition_variable>
#include <mutex>
#include <thread>

struct Queue {
    std::mutex lock;
    std::condition_variable changed;
    int items = 0;
    bool closed = false;

    void put() {
        std::lock_guard<std::mutex> guard(lock);
        items++;
        changed.notify_all();
    }

    void close() {
        std::lock_guard<std::mutex> guard(lock);
        closed = true;
        changed.notify_all();
    }

    void take() {
        std::unique_lock<std::mutex> guard(lock);
        // Somebody else may take it while the lock is free.
        bool ready = items > 0;
        guard.unlock();
        guard.lock();
        changed.wait(guard, [&] { return ready || closed || items > 0; });
        items--;
    }
};

int main() {
    Queue queue;
    auto consumer = [&] {
        for (int i = 0; i < 500; i++)
            queue.take();
    };
    // There is something to take from the start, and later there is not.
    for (int i = 0; i < 500; i++)
        queue.put();
    std::thread one(consumer), two(consumer);
    for (int i = 0; i < 500; i++)
        queue.put();
    queue.close();
    one.join();
    two.join();
}
