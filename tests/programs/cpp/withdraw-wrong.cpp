// Looks at the balance under the lock, and takes the money under the lock: another may have been there.
// finding: Account::withdraw(int) 15 20
#include <mutex>
#include <thread>

class Account {
    std::mutex lock;
    int balance = 10000;

  public:
    bool withdraw(int amount) {
        int seen;
        {
            std::lock_guard<std::mutex> guard(lock);
            seen = balance;
        }
        if (seen < amount)
            return false;
        std::lock_guard<std::mutex> guard(lock);
        balance = seen - amount;
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
