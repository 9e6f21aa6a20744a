// flags: -std=c++17
// Looks for the name and gives it a number as a writer; who only looks is a reader.
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>

class Names {
    std::shared_mutex lock;
    std::map<int, int> numbers;

  public:
    int number(int name) {
        std::unique_lock<std::shared_mutex> guard(lock);
        return numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
    }

    bool has(int name) {
        std::shared_lock<std::shared_mutex> guard(lock);
        return numbers.count(name) > 0;
    }
};

int main() {
    Names names;
    auto use = [&] {
        for (int i = 0; i < 300; i++) {
            names.number(i);
            names.has(i + 1);
        }
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
}
