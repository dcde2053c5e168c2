// SPDX-License-Identifier: Apache-2.0
// What a TCPStore of PyTorch 2.x does with the bytes of its clients, without sockets: keys, queues,
// barriers and who waits for what. Private to tcp_store; used by its one thread.
//
// Requests are one byte of operation and its arguments; numbers are little-endian, strings a u64
// length and their bytes. A connection starts with VALIDATE and a magic number. Limits: keys 1 MiB,
// values 1 GiB, 131,072 keys a request, 4 GiB in all; beyond, and on anything else that makes no
// sense, the connection is closed, which is all this protocol has for an error.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ty::agent {

class StoreCore {
public:
    using ClientId = std::uint64_t;  ///< never reused

    struct Step {
        enum class Kind { done, more, refuse } kind = Kind::more;
        /// done: bytes the request took. more: bytes there must be before another try.
        std::size_t bytes = 1;
        const char* why = "";  ///< refuse
    };

    void add_client(ClientId client);
    void remove_client(ClientId client);
    bool is_validated(ClientId client) const;

    /// At most one request from the front of `input`. Answers, to this and to other clients, are
    /// collected until take_answers().
    Step step(ClientId client, std::string_view input);
    std::vector<std::pair<ClientId, std::string>> take_answers();

    std::size_t keys() const { return values_.size(); }

private:
    struct Client {
        bool validated = false;
        std::set<std::string> awaited;  ///< keys that its WAIT or BARRIER still needs
    };
    class Reader;
    enum class Request : std::uint8_t {};  ///< its names are on the wire: see the source

    void run(ClientId id, Client& client, Request request, Reader& in);
    void compare_set(ClientId id, Reader& in);
    void add(ClientId id, Reader& in);
    void check(ClientId id, Reader& in);
    void wait(ClientId id, Client& client, Reader& in);
    void multi_get(ClientId id, Reader& in);
    void multi_set(Reader& in);
    void queue_push(Reader& in);
    void queue_pop(ClientId id, Reader& in);
    void list_keys(ClientId id);
    void barrier(ClientId id, Client& client, Reader& in);

    bool has(const std::string& key) const;
    void set(const std::string& key, std::string value, Reader& in);
    bool store(const std::string& key, std::string value, Reader& in);
    std::optional<std::int64_t> increase(const std::string& key, std::int64_t delta, Reader& in);
    void answer_value(ClientId id, const std::string& key, Reader& in);
    std::int64_t erase(const std::string& key);
    bool account(std::size_t gone, std::size_t come, Reader& in);
    enum class Wake { all, one };
    void wake(const std::string& key, Wake whom);
    void stop_waiting(ClientId id, Client& client);
    std::string& answer(ClientId id);

    std::unordered_map<std::string, std::string> values_;
    std::unordered_map<std::string, std::deque<std::string>> queues_;
    std::unordered_map<std::string, std::vector<ClientId>> waiting_;  ///< in order of arrival
    std::map<ClientId, Client> clients_;
    std::map<ClientId, std::string> answers_;
    std::size_t stored_ = 0;  ///< bytes of keys' values and queued entries
};

}  // namespace ty::agent
