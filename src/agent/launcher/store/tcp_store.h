// SPDX-License-Identifier: Apache-2.0
// A TCPStore in the dialect of PyTorch 2.x, hosted by the agent of the node with rank 0 when
// --agent-store is given (TORCHELASTIC_USE_AGENT_STORE=True): no port race, and it survives the
// exit of rank 0. One store per generation, with its own thread; close() ends all waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace ty::agent {

class TcpStore {
public:
    /// Listens on host:port; 0 takes a free port. Throws conflict.
    TcpStore(const std::string& host, std::uint16_t port);
    ~TcpStore();
    std::uint16_t port() const;
    std::size_t keys() const;         ///< any thread
    std::size_t connections() const;  ///< any thread

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ty::agent
