// flags: -std=c++17
// Looks for the name and gives it a number as a writer; who only looks is a reader.
#include <map>
#include <shared_mutex>
#include <string>
#include <thread>

class Names {
    std::shared_mutex lock;
    std::map<std::string, int> numbers;

  public:
    int number(const std::string &name) {
        std::unique_lock<std::shared_mutex> guard(lock);
        return numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
    }

    bool has(const std::string &name) {
        std::shared_lock<std::shared_mutex> guard(lock);
        return numbers.count(name) > 0;
    }
};

int main() {
    Names names;
    auto use = [&] {
        for (int i = 0; i < 300; i++) {
            names.number("name " + std::to_string(i));
            names.has("name " + std::to_string(i + 1));
        }
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
}
