// SPDX-License-Identifier: Apache-2.0
#include "common/files/file.h"

#include "common/base/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

bool is_remote(int fd) {
    constexpr long kFuse = 0x65735546, kNfs = 0x6969, kSmb2 = 0xfe534d42, kCifs = 0xff534d42,
                   kPlan9 = 0x01021997, kCeph = 0x00c36400, kLustre = 0x0bd00bd0;
    struct statfs status {};
    if (::fstatfs(fd, &status) != 0) return false;
    const long type = static_cast<long>(status.f_type);
    return type == kFuse || type == kNfs || type == kSmb2 || type == kCifs || type == kPlan9 ||
           type == kCeph || type == kLustre;
}

}  // namespace

std::string error_text(int number) {
    std::string text = std::generic_category().message(number);
    if (!text.empty())
        text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    return text;
}

std::string read_start(const std::filesystem::path& path, std::size_t most) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_at(path, "open it", errno);
    std::string bytes(most, '\0');
    const ssize_t count = ::pread(fd, bytes.data(), most, 0);
    const int error = errno;
    ::close(fd);
    if (count < 0) fail_at(path, "read it", error);
    bytes.resize(static_cast<std::size_t>(count));
    return bytes;
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

int MappedFile::map(int fd) {
    constexpr int kAccess = PROT_READ | PROT_WRITE, kKind = MAP_PRIVATE | MAP_NORESERVE;
    void* at = is_remote(fd) ? ::mmap(nullptr, size_, kAccess, kKind | MAP_ANONYMOUS, -1, 0)
                             : ::mmap(nullptr, size_, kAccess, kKind, fd, 0);
    if (at == MAP_FAILED) return errno;
    data_ = static_cast<std::byte*>(at);
    return is_remote(fd) ? read_whole(fd) : 0;
}

int MappedFile::read_whole(int fd) {
    for (std::size_t done = 0; done < size_;) {
        const ssize_t count = ::pread(fd, data_ + done, size_ - done, static_cast<off_t>(done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count < 0 ? errno : EIO;  // it became shorter
        done += static_cast<std::size_t>(count);
    }
    return 0;
}

MappedFile::MappedFile(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_at(path, "open it", errno);
    struct stat status {};
    int error = ::fstat(fd, &status) == 0 ? 0 : errno;
    if (error == 0 && S_ISDIR(status.st_mode)) error = EISDIR;
    size_ = static_cast<std::size_t>(status.st_size);
    if (error == 0 && size_ > 0) error = map(fd);
    ::close(fd);
    if (error == 0) return;
    if (data_ != nullptr) ::munmap(data_, size_);
    fail_at(path, "read it", error);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace alg
