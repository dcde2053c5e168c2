// SPDX-License-Identifier: Apache-2.0
#include "common/base/json_file.h"

#include "common/base/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace alg {

namespace {

constexpr std::size_t kLimit = std::size_t{1} << 20;

struct Descriptor {
    int number;
    ~Descriptor() {
        if (number >= 0) ::close(number);
    }
};

}  // namespace

std::optional<std::string> read_small_file(const std::filesystem::path& path, std::size_t limit) {
    // A FIFO or device in the file's place must not block: only regular files are read.
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.number < 0) {
        if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
        fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
    }
    struct stat status {};
    if (::fstat(file.number, &status) != 0 || !S_ISREG(status.st_mode))
        fail("{}: is not a regular file", path.string());
    std::string text(limit + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t got = ::read(file.number, text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
        if (got == 0) break;
        size += static_cast<std::size_t>(got);
    }
    if (size > limit) fail("{}: is larger than the {} bytes allowed", path.string(), limit);
    text.resize(size);
    return text;
}

std::optional<nlohmann::json> read_json_object(const std::filesystem::path& path) {
    const std::optional<std::string> text = read_small_file(path, kLimit);
    if (!text) return std::nullopt;
    nlohmann::json value;
    try {
        value = nlohmann::json::parse(*text);
    } catch (const nlohmann::json::parse_error& error) {
        if (error.byte > text->size())
            fail("{}: the JSON ends in the middle, after {} bytes; was the file written whole?",
                 path.string(), text->size());
        const std::size_t at = std::min(error.byte, text->size());
        const auto line =
            1 + std::count(text->begin(), text->begin() + static_cast<long>(at), '\n');
        fail("{}:{}: is not valid JSON, at byte {}", path.string(), line, error.byte);
    } catch (const nlohmann::json::exception&) {  // a number beyond any type
        fail("{}: is not valid JSON: a value cannot be represented", path.string());
    }
    if (!value.is_object())
        fail("{}: is {}; an object of names and values is expected", path.string(), kind_of(value));
    return value;
}

std::string kind_of(const nlohmann::json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    if (value.is_string()) return "a text";
    if (value.is_boolean()) return "true or false";
    if (value.is_number()) return "a number";
    return "null";
}

}  // namespace alg
