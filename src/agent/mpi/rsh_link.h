// SPDX-License-Identifier: Apache-2.0
// The wire of our remote shell: frames, of which the server's first is a nonce and the client's
// first a request with a proof that it knows the job's secret. Nothing is done before the proof.
//
// Requests: "run <command line>" is answered by frames 'o' and 'e' (bytes of standard output and
// error) and one 'x' (exit code); "watch" makes the caller the one whose "done <code>", or end,
// ends the server.
#pragma once

#include "agent/launcher/link/frames.h"
#include "base/time.h"
#include "sys/sys.h"

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace ty::agent {

struct RshAddress {
    std::string host;
    std::uint16_t port = 0;
    std::string secret;
};
/// From TRAINYARD_MPI_*; throws invalid when this is no program of an MPI job.
RshAddress rsh_address(const std::string& host);

class RshLink {
public:
    explicit RshLink(sys::Socket socket);
    int fd() const { return socket_.fd(); }
    void send(std::string_view frame, Deadline by, const std::stop_token& stop = {});
    /// The next frame; nullopt at the end of the stream. Throws timed_out, cancelled, unavailable.
    std::optional<std::string> receive(Deadline by, const std::stop_token& stop = {});

private:
    sys::Socket socket_;
    FrameReader reader_;
};

struct RshRequest {
    std::string verb, body;
};

/// Connect and ask. Throws unavailable or timed_out (nobody serves there), denied (another secret).
RshLink rsh_call(const RshAddress& to, const RshRequest& request, Deadline by);
/// The other side: throws denied after telling a caller who does not know the secret.
RshRequest rsh_answer(RshLink& link, const std::string& secret, Deadline by,
                      const std::stop_token& stop);

}  // namespace ty::agent
