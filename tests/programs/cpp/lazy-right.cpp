// A function's static is made once, by whoever comes first; a mutex guards the rest.
#include <map>
#include <mutex>
#include <string>
#include <thread>

struct Registry {
    std::mutex lock;
    std::map<std::string, int> entries;

    int get(const std::string &key) {
        std::lock_guard<std::mutex> guard(lock);
        auto found = entries.find(key);
        if (found == entries.end())
            found = entries.emplace(key, static_cast<int>(entries.size())).first;
        return found->second;
    }
};

static Registry &registry() {
    static Registry only;
    return only;
}

int main() {
    auto use = [] {
        for (int i = 0; i < 300; i++)
            registry().get("key " + std::to_string(i % 20));
    };
    std::thread one(use), two(use);
    one.join();
    two.join();
    return registry().entries.size() != 20;
}
