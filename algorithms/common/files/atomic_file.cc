// SPDX-License-Identifier: Apache-2.0
#include "common/files/atomic_file.h"

#include "common/base/error.h"
#include "common/files/file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace alg {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kDigits = 16;
constexpr std::string_view kSuffix = ".tmp";

fs::path temporary_for(const fs::path& file) {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
        fail("{}: no random name for a temporary file: {}", file.string(), error_text(errno));
    // The name must not exceed the 255 bytes that `file` itself is held to.
    const std::string name = file.filename().string().substr(0, 230);
    return file.parent_path() / format(".{}.{:016x}{}", name, number, kSuffix);
}

bool is_temporary(std::string_view name) {
    if (name.size() < 1 + 1 + 1 + kDigits + kSuffix.size() || name[0] != '.') return false;
    if (!name.ends_with(kSuffix)) return false;
    name.remove_suffix(kSuffix.size());
    const std::string_view digits = name.substr(name.size() - kDigits);
    return name[name.size() - kDigits - 1] == '.' &&
           digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void sync(const fs::path& path, int flags) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) fail("{}: cannot open it: {}", path.string(), error_text(errno));
    const int error = ::fsync(fd) == 0 ? 0 : errno;
    ::close(fd);
    // Some file systems cannot sync a folder and say so; there is nothing left to do then.
    const bool cannot = (flags & O_DIRECTORY) != 0 && (error == EINVAL || error == ENOTSUP);
    if (error != 0 && !cannot) fail("{}: cannot write it: {}", path.string(), error_text(error));
}

/// Messages speak of the file the caller knows.
std::string with_name(std::string message, const fs::path& temporary, const fs::path& file) {
    const std::string from = temporary.string();
    for (std::size_t at = message.find(from); at != std::string::npos; at = message.find(from))
        message.replace(at, from.size(), file.string());
    return message.find(file.string()) == std::string::npos ? file.string() + ": " + message
                                                            : message;
}

}  // namespace

void write_atomically(const fs::path& file, const std::function<void(const fs::path&)>& write) {
    if (!file.has_filename()) fail("\"{}\" is no name for a file", file.string());
    const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail("{}: cannot create the folder: {}", folder.string(), error_text(error.value()));
    const fs::path temporary = temporary_for(file);
    try {
        write(temporary);
        sync(temporary, 0);
        if (::rename(temporary.c_str(), file.c_str()) != 0)
            fail("{}: cannot rename onto it: {}", file.string(), error_text(errno));
        sync(folder, O_DIRECTORY);
    } catch (const std::exception& problem) {
        fs::remove(temporary, error);
        throw Failure(with_name(problem.what(), temporary, file));
    }
}

void write_text_atomically(const fs::path& file, std::string_view text) {
    write_atomically(file, [text](const fs::path& path) {
        OutputFile out(path);
        out.write(text);
        out.close();
    });
}

std::size_t remove_temporaries(const fs::path& folder) {
    std::size_t removed = 0;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        std::error_code ignored;
        if (is_temporary(entry->path().filename().string()) && entry->is_regular_file(ignored) &&
            fs::remove(entry->path(), ignored))
            ++removed;
    }
    return removed;
}

}  // namespace alg
