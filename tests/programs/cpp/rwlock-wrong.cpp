// flags: -std=c++17
// Looks for the name as a reader, and gives it a number as a writer without looking again.
// finding: Names::number(std::string const&) 17 22
#include <map>
#include <shared_mutex>
#include <string>
#include <thread>

class Names {
    std::shared_mutex lock;
    std::map<std::string, int> numbers;

  public:
    int number(const std::string &name) {
        {
            std::shared_lock<std::shared_mutex> guard(lock);
            auto found = numbers.find(name);
            if (found != numbers.end())
                return found->second;
        }
        std::unique_lock<std::shared_mutex> guard(lock);
        return numbers[name] = static_cast<int>(numbers.size());
    }
};

int main() {
    Names names;
    auto use = [&] {
        for (int i = 0; i < 300; i++)
            names.number("name " + std::to_string(i));
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
}
