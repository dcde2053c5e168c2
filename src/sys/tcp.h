// SPDX-License-Identifier: Apache-2.0
// Blocking stream sockets with deadlines. TCP_NODELAY on; close-on-exec.
#pragma once

#include "base/time.h"
#include "sys/fd.h"

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

namespace ty::sys {

class Socket {
public:
    Socket() = default;
    explicit Socket(Fd fd) : fd_(std::move(fd)) {}
    /// Numeric address or resolvable name. Throws unavailable, timed_out.
    static Socket connect_tcp(const std::string& host, std::uint16_t port, Deadline by,
                              const std::stop_token& stop = {});

    /// 0 at end of stream. Throws timed_out, cancelled, unavailable (reset).
    std::size_t read(std::span<std::byte> into, Deadline by, const std::stop_token& stop = {});
    void write(std::span<const std::byte> data, Deadline by, const std::stop_token& stop = {});
    /// Both parts with as few system calls as one write of their concatenation.
    void write_parts(std::span<const std::byte> first, std::span<const std::byte> second,
                     Deadline by, const std::stop_token& stop = {});
    /// As write(), but the kernel may hold back a partial segment: more follows at once.
    void write_more(std::span<const std::byte> data, Deadline by, const std::stop_token& stop = {});
    /// Kernel copy of a file range into the socket.
    void send_file(int file, std::uint64_t offset, std::uint64_t length, Deadline by,
                   const std::stop_token& stop = {});
    void shutdown_write();
    /// Wakes a thread that waits in read(): it sees the end of the stream. From any thread, as long
    /// as the descriptor cannot be closed meanwhile.
    void shutdown_read();
    /// As shutdown_read() and shutdown_write() together; a blocked write fails.
    void shutdown_both();
    /// "127.0.0.1:51234" or "[::1]:51234" of the other side; empty when it is gone.
    std::string peer() const;
    int fd() const { return fd_.get(); }
    bool is_open() const { return fd_.is_open(); }
    void close() { fd_.close(); }

private:
    Fd fd_;
};

class Listener {
public:
    /// port 0 takes a free one. Throws conflict ("AddressInUse") naming host and port.
    static Listener tcp(const std::string& host, std::uint16_t port);
    std::uint16_t port() const { return port_; }
    /// nullopt when stopped. Transient accept errors (descriptors exhausted) are waited out.
    std::optional<Socket> accept(const std::stop_token& stop);

private:
    Listener(Fd fd, std::uint16_t port) : fd_(std::move(fd)), port_(port) {}
    Fd fd_;
    std::uint16_t port_;
};

}  // namespace ty::sys
