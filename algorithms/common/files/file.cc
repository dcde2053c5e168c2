// SPDX-License-Identifier: Apache-2.0
#include "common/files/file.h"

#include "common/base/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <system_error>

namespace alg {
namespace {

constexpr std::size_t kGather = std::size_t{256} << 10;

[[noreturn]] void fail_at(const std::filesystem::path& path, const char* what, int number) {
    fail("{}: cannot {}: {}", path.string(), what, error_text(number));
}

}  // namespace

std::string error_text(int number) {
    std::string text = std::generic_category().message(number);
    if (!text.empty())
        text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    return text;
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) fail_at(path_, "create it", errno);
    pending_.reserve(kGather);
}

OutputFile::~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
}

void OutputFile::to_kernel(Bytes bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail_at(path_, "write it", done < 0 ? errno : ENOSPC);
        bytes = bytes.subspan(static_cast<std::size_t>(done));
        offset += static_cast<std::uint64_t>(done);
    }
}

void OutputFile::flush() {
    to_kernel(as_bytes(pending_), written_);
    written_ += pending_.size();
    pending_.clear();
}

void OutputFile::write(Bytes bytes) {
    size_ += bytes.size();
    if (pending_.size() + bytes.size() <= kGather) {
        pending_.append(as_text(bytes));
        return;
    }
    flush();
    to_kernel(bytes, written_);
    written_ += bytes.size();
}

void OutputFile::patch(std::uint64_t offset, Bytes bytes) {
    if (offset + bytes.size() > size_) fail("{}: patch beyond the end", path_.string());
    if (offset >= written_) {
        pending_.replace(offset - written_, bytes.size(), as_text(bytes));
        return;
    }
    flush();
    to_kernel(bytes, offset);
}

void OutputFile::close() {
    flush();
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail_at(path_, "write it", errno);
}

MappedFile::MappedFile(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_at(path, "open it", errno);
    struct stat status {};
    int error = ::fstat(fd, &status) == 0 ? 0 : errno;
    if (error == 0 && S_ISDIR(status.st_mode)) error = EISDIR;
    size_ = static_cast<std::size_t>(status.st_size);
    if (error == 0 && size_ > 0) {
        void* at =
            ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
        if (at == MAP_FAILED) {
            error = errno;
        } else {
            data_ = static_cast<std::byte*>(at);
        }
    }
    ::close(fd);
    if (error != 0) fail_at(path, "read it", error);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace alg
