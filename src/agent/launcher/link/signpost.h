// SPDX-License-Identifier: Apache-2.0
// When a job's coordinator has moved away from the endpoint everybody was told.
//
// Signpost: an agent on the endpoint's machine that knows where the coordinator is listens there
// and says so to whoever comes. The word of a signpost proves nothing and need not: at the place it
// names, both sides prove that they know the token.
//
// Claim: the agent that hosts the moved coordinator looks at the endpoint four times a second. If
// it finds a coordinator there (a first agent that came back without its log), it tells it to step
// down.
#pragma once

#include "agent/launcher/link/frames.h"
#include "base/sync.h"
#include "sys/sys.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ty::agent {

using Place = std::pair<std::string, std::uint16_t>;
/// "10.0.0.2:4711", "[::1]:4711".
std::optional<Place> split_place(const std::string& text);
std::string join_place(const Place& place);

/// The frame of a signpost; nullopt when `frame` is something else (a greeting).
std::string moved_frame(std::string_view address);
std::optional<std::string> read_moved(std::string_view frame);

/// What a claim says after the handshake; nullopt for any other frame.
struct ClaimFrame {
    std::string address;          ///< where the job's coordinator listens
    std::int64_t generation = 0;  ///< the newest it has started
};
std::string encode(const ClaimFrame& claim);
std::optional<ClaimFrame> read_claim(std::string_view frame);
/// The answer of a coordinator that is not behind.
std::string ahead_frame(std::int64_t generation);

class Signpost {
public:
    /// `listener` listens; `address`: "10.0.0.2:4711".
    Signpost(sys::Poller& poller, sys::Fd listener, std::string address);
    ~Signpost();

private:
    void answer();
    sys::Poller& poller_;
    sys::Fd listener_;
    std::string frame_;
};

class Claim {
public:
    Claim(JobSecret secret, std::string node, std::vector<Place> endpoints, std::string address);
    void set_generation(std::int64_t generation) { generation_ = generation; }
    /// Readable when the coordinator at leader() turned out to be ahead of ours.
    int fd() const { return beaten_.fd(); }
    std::string leader() const;

private:
    void look(const Place& place, bool follow, const std::stop_token& stop);

    JobSecret secret_;
    std::string node_;
    std::vector<Place> endpoints_;
    std::string address_;
    std::atomic<std::int64_t> generation_ = 0;
    sys::WakeFd beaten_;
    Sync<std::string> leader_;
    std::jthread thread_;
};

}  // namespace ty::agent
