// flags: -std=c++17
// Tasks of futures that take from one balance: another one may have been there between the two looks.
// finding: withdraw(long) 15 18 high
#include <future>
#include <mutex>
#include <thread>

static std::mutex lock;
static long balance = 1000;

void withdraw(long amount) {
    long seen;
    {
        std::lock_guard<std::mutex> guard(lock);
        seen = balance;
    }
    std::lock_guard<std::mutex> guard(lock);
    balance = seen - amount;
}

static void customer() {
    for (int time = 0; time < 200; time++)
        withdraw(1);
}

int main() {
    auto one = std::async(std::launch::async, customer);
    std::packaged_task<void()> two(customer);
    std::thread runner(std::move(two));
    one.get();
    runner.join();
    return 0;
}
