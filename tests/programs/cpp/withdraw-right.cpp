// Looks at the balance and takes the money under one lock.
#include <mutex>
#include <thread>

class Account {
    std::mutex lock;
    int balance = 10000;

  public:
    bool withdraw(int amount) {
        std::lock_guard<std::mutex> guard(lock);
        if (balance < amount)
            return false;
        balance -= amount;
        return true;
    }
};

int main() {
    Account account;
    auto customer = [&] {
        for (int i = 0; i < 1000; i++)
            account.withdraw(1);
    };
    std::thread one(customer), two(customer);
    one.join();
    two.join();
}
