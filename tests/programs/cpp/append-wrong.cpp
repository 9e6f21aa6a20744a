// Asks how long the other string is, and then copies it: it may have become shorter in between.
// finding: StringBuffer::append(StringBuffer const&) 27 28
#include <mutex>
#include <string>
#include <thread>

struct StringBuffer {
    mutable std::mutex lock;
    std::string text;

    std::size_t length() const {
        std::lock_guard<std::mutex> guard(lock);
        return text.size();
    }

    std::string get(std::size_t length) const {
        std::lock_guard<std::mutex> guard(lock);
        return text.substr(0, length);
    }

    void set_length(std::size_t length) {
        std::lock_guard<std::mutex> guard(lock);
        text.resize(length, 'x');
    }

    void append(const StringBuffer &other) {
        std::size_t length = other.length();
        std::string copied = other.get(length);
        std::lock_guard<std::mutex> guard(lock);
        text = copied;
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
