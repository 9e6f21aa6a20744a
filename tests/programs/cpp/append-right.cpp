// flags: -std=c++17
// Asks how long the other string is and copies it while nobody can change it.
#include <mutex>
#include <string>
#include <thread>

struct StringBuffer {
    mutable std::mutex lock;
    std::string text;

    void set_length(std::size_t length) {
        std::lock_guard<std::mutex> guard(lock);
        text.resize(length, 'x');
    }

    void append(const StringBuffer &other) {
        std::scoped_lock guard(lock, other.lock);
        std::size_t length = other.text.size();
        text.assign(other.text, 0, length);
    }
};

int main() {
    StringBuffer from, to;
    std::thread shortener([&] {
        for (std::size_t i = 0; i < 500; i++)
            from.set_length(i % 64);
    });
    std::thread appender([&] {
        for (int i = 0; i < 500; i++)
            to.append(from);
    });
    shortener.join();
    appender.join();
}
