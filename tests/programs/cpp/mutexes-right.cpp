// flags: -std=c++17
// What <mutex>, <shared_mutex> and <condition_variable> offer, each used as it should be.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

class Account {
    mutable std::recursive_mutex lock;
    int balance = 100;

  public:
    int get() const {
        std::lock_guard<std::recursive_mutex> guard(lock);
        return balance;
    }

    void add(int amount) {
        std::lock_guard<std::recursive_mutex> guard(lock);
        if (get() + amount >= 0)
            balance += amount;
    }
};

struct Cell {
    std::mutex lock;
    int value = 0;
};

static void move_one(Cell &from, Cell &to) {
    std::scoped_lock both(from.lock, to.lock);
    from.value--;
    to.value++;
}

class Cache {
    std::shared_mutex lock;
    std::map<int, int> entries;

  public:
    int get(int key) {
        std::shared_lock<std::shared_mutex> guard(lock);
        auto found = entries.find(key);
        return found == entries.end() ? -1 : found->second;
    }

    void put(int key, int value) {
        std::unique_lock<std::shared_mutex> guard(lock);
        entries[key] = value;
    }
};

class Queue {
    std::timed_mutex lock;
    std::condition_variable_any changed;
    std::deque<std::shared_ptr<int>> items;

  public:
    void put(int item) {
        auto made = std::make_shared<int>(item);
        {
            std::unique_lock<std::timed_mutex> guard(lock, std::chrono::seconds(60));
            items.push_back(std::move(made));
        }
        changed.notify_one();
    }

    std::shared_ptr<int> take() {
        std::unique_lock<std::timed_mutex> guard(lock);
        changed.wait(guard, [this] { return !items.empty(); });
        auto item = std::move(items.front());
        items.pop_front();
        return item;
    }
};

static const std::vector<int> &squares() {
    static const std::vector<int> table = [] {
        std::vector<int> made;
        for (int i = 0; i < 16; i++)
            made.push_back(i * i);
        return made;
    }();
    return table;
}

static std::once_flag once;
static int started;

int main() {
    Account account;
    Cell left, right;
    Cache cache;
    Queue queue;
    auto work = [&](int own) {
        for (int i = 0; i < 200; i++) {
            std::call_once(once, [] { started++; });
            account.add(i % 2 ? -1 : 1);
            own ? move_one(left, right) : move_one(right, left);
            cache.put(i % 10, squares()[i % 16]);
            cache.get((i + 3) % 10);
            queue.put(i);
        }
    };
    std::thread one(work, 0), two(work, 1);
    int sum = 0;
    for (int i = 0; i < 400; i++)
        sum += *queue.take();
    one.join();
    two.join();
    return left.value + right.value != 0 || account.get() != 100 || sum != 39800 || started != 1;
}
