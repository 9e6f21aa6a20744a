// Waits for all jobs of a round before it looks at their sum, but they are done long before: nobody has to wait.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

class Pool {
    std::mutex lock;
    std::condition_variable changed;
    int jobs = 0, busy = 0, sum = 0;
    bool over = false;

    void start(int count)
    {
        std::lock_guard<std::mutex> held(lock);
        sum = 0;
        jobs = busy = count;
        changed.notify_all();
    }

    int join()
    {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [this] { return busy == 0; });
        return sum;
    }

public:
    void work()
    {
        std::unique_lock<std::mutex> held(lock);
        for (;;) {
            while (jobs == 0 && !over)
                changed.wait(held);
            if (jobs == 0)
                return;
            jobs--;
            sum++;
            busy--;
            changed.notify_all();
        }
    }

    __attribute__((noinline)) int add_up()
    {
        start(3);
        // Long enough for the others.
        for (volatile long i = 0; i < 20000000; i = i + 1)
            ;
        return join();
    }

    void end()
    {
        std::lock_guard<std::mutex> held(lock);
        over = true;
        changed.notify_all();
    }
};

int main()
{
    Pool pool;
    std::vector<std::thread> threads;
    bool right = true;

    for (int i = 0; i < 2; i++)
        threads.emplace_back([&] { pool.work(); });
    for (int i = 0; i < 5; i++)
        right = right && pool.add_up() == 3;
    pool.end();
    for (auto &thread : threads)
        thread.join();
    return !right;
}
