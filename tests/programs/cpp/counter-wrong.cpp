// Atomic operations, but two of them: two customers may get the same ticket.
// finding: next_ticket() 9 10
#include <atomic>
#include <thread>

static std::atomic<int> tickets{0};

int next_ticket() {
    int next = tickets.load() + 1;
    tickets.store(next);
    return next;
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
