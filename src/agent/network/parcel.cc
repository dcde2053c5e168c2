// SPDX-License-Identifier: Apache-2.0
#include "agent/network/parcel.h"

#include "base/error.h"

#include <array>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr std::size_t kLongest = 128u << 10;
constexpr std::size_t kMostFds = 8;
constexpr int kBacklog = 1024;

/// Short whatever the folder is called; valid while `folder` is open.
sockaddr_un address_in(const sys::Fd& folder, const sys::fs::path& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string text = format("/proc/self/fd/{}/{}", folder.get(), path.filename().string());
    if (text.size() >= sizeof address.sun_path) {
        throw_error(Code::invalid, "", "socket name {} is too long", path.filename().string());
    }
    std::memcpy(address.sun_path, text.data(), text.size());
    return address;
}

}  // namespace

sys::Fd listen_at(const sys::fs::path& path) {
    ::unlink(path.c_str());
    const sys::Fd folder = sys::open_dir(path.parent_path());
    const sockaddr_un address = address_in(folder, path);
    sys::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) throw_errno("open a socket");
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(socket.get(), kBacklog) != 0) {
        throw_errno("listen at {}", path.string());
    }
    return socket;
}

sys::Fd connect_to(const sys::fs::path& path) {
    const sys::Fd folder = sys::open_dir(path.parent_path());
    const sockaddr_un address = address_in(folder, path);
    sys::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) throw_errno("open a socket");
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        return socket;
    if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR) return {};
    throw_errno("connect to {}", path.string());
}

void send_parcel(int socket, std::string_view text, std::span<const int> fds) {
    TY_ASSERT(fds.size() <= kMostFds);
    iovec part = {const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    ssize_t sent = 0;
    while ((sent = ::sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
    }
    if (sent < 0) throw_errno("talk to the other side of the job's network");
}

std::optional<Parcel> receive_parcel(int socket) {
    Parcel parcel;
    parcel.text.resize(kLongest);
    iovec part = {parcel.text.data(), parcel.text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t got = 0;
    while ((got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); got >= 0 && header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        std::array<int, kMostFds> numbers = {};
        const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
        std::memcpy(numbers.data(), CMSG_DATA(header), std::min(bytes, sizeof numbers));
        for (std::size_t i = 0; i < bytes / sizeof(int); ++i) parcel.fds.emplace_back(numbers[i]);
    }
    if (got <= 0) return std::nullopt;
    parcel.text.resize(static_cast<std::size_t>(got));
    return parcel;
}

}  // namespace ty::agent
