// SPDX-License-Identifier: Apache-2.0
// Messages with descriptors between agents and the network process: one JSON document each on a
// SOCK_SEQPACKET that lies in the process's folder.
#pragma once

#include "base/time.h"
#include "sys/fd.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

struct Parcel {
    std::string text;
    std::vector<sys::Fd> fds;
};

/// A listening socket at `path`, of any length: bound through its folder's descriptor, because the
/// kernel takes 107 bytes only. An old one is replaced. Non-blocking.
sys::Fd listen_at(const sys::fs::path& path);
/// Not open when nobody listens there (yet). Throws denied, invalid.
sys::Fd connect_to(const sys::fs::path& path);

/// Throws unavailable when the other side is gone.
void send_parcel(int socket, std::string_view text, std::span<const int> fds = {});
/// nullopt when the other side is gone. Blocks unless something is there.
std::optional<Parcel> receive_parcel(int socket);

}  // namespace ty::agent
