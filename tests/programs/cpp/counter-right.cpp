// One atomic operation: no two customers get the same ticket.
#include <atomic>
#include <thread>

static std::atomic<int> tickets{0};

int next_ticket() {
    return ++tickets;
}

int main() {
    auto buy = [] {
        for (int i = 0; i < 1000; i++)
            next_ticket();
    };
    std::thread one(buy), two(buy);
    one.join();
    two.join();
}
