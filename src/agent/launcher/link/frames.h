// SPDX-License-Identifier: Apache-2.0
// The wire between nodes and coordinator: length-prefixed JSON frames, and the handshake by which
// both sides prove that they know the job's token without sending it.
//
// A frame is its length as 32 bits, little-endian, and so many bytes of JSON. The coordinator
// speaks first (a nonce), the node answers with its own nonce and an HMAC over both, its id and the
// run id; the coordinator proves the same. After that the frames are rendezvous messages. Pure, no
// sockets.
#pragma once

#include "base/random.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ty::agent {

/// What a frame may hold: before the proof, from a node, from the coordinator.
inline constexpr std::size_t kHandshakeLimit = 4u << 10;
inline constexpr std::size_t kUpLimit = 64u << 10;
inline constexpr std::size_t kDownLimit = 8u << 20;

void append_frame(std::string& out, std::string_view body);

/// Cuts a byte stream into frames.
class FrameReader {
public:
    explicit FrameReader(std::size_t limit) : limit_(limit) {}
    void set_limit(std::size_t limit) { limit_ = limit; }
    void append(std::string_view bytes);
    /// The next whole frame, valid until the next append(). Throws invalid ("FrameTooLarge") as
    /// soon as a length beyond the limit is seen: nothing is reserved on a stranger's word.
    std::optional<std::string_view> next();
    std::size_t buffered() const { return buffer_.size() - used_; }

private:
    std::string buffer_;
    std::size_t used_ = 0;
    std::size_t limit_;
};

/// What the processes of one job share.
struct JobSecret {
    std::string run_id;
    std::string token;
};
/// For jobs without a token: keeps apart jobs with different ids, and nobody who knows the id.
std::string weak_token(std::string_view run_id);

/// The coordinator's side. `nonce` is fresh for each connection.
std::string make_nonce(Ids& ids);
std::string greeting(std::string_view nonce);
struct Admission {
    std::string node;    ///< who it is
    std::string answer;  ///< frame that proves us
};
/// Throws invalid (no handshake), denied "WrongRun" or "WrongToken".
/// `host` is told to the node: whose end means the coordinator's.
Admission admit(const JobSecret& secret, std::string_view host, std::string_view nonce,
                std::string_view frame);
/// Frame that says why an admission failed; `why` is an Error's reason.
std::string refusal(std::string_view why);

/// The node's side of one connection.
class Introduction {
public:
    Introduction(JobSecret secret, std::string node)
        : secret_(std::move(secret)), node_(std::move(node)) {}
    /// Frame that answers a greeting. Throws invalid when that is none.
    std::string answer(std::string_view greeting, Ids& ids);
    /// The node id of the agent that hosts the coordinator, may be empty.
    /// Throws denied ("WrongRun", "WrongToken": said by the other side; "Impostor": it does not
    /// know the token itself), invalid when it is something else altogether.
    std::string verify(std::string_view frame) const;

private:
    JobSecret secret_;
    std::string node_;
    std::string server_nonce_, own_nonce_;
};

}  // namespace ty::agent
