// SPDX-License-Identifier: Apache-2.0
// An S3 in memory for the checkpoint tests. Its objects outlive its server, which can be killed and
// started again at the same address; a fault can be ordered for any request. Answers only what
// Google's XML API answers too: a multi-object delete is a complaint.
#pragma once

#include "agent/transfer/download.h"
#include "base/sync.h"
#include "base/time.h"
#include "http/http.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ty::agent {

class FakeStorage {
public:
    FakeStorage();
    ~FakeStorage();

    enum class Fault {
        none,
        refuse,  ///< 503, nothing happens
        deny,    ///< 403
        lose,    ///< it happens, and the answer is a 503
        tear,    ///< half of the answer's bytes
        stall,   ///< a while passes first
    };
    struct Call {
        std::string method, path, query;  ///< path decoded: "/bucket/key"
        std::size_t number = 0;           ///< from 0
    };
    /// Decides about every request, on the server's threads; empty: no faults.
    void set_faults(std::function<Fault(const Call&)> faults);

    /// Connections break, nobody listens.
    void kill();
    void start();

    std::uint16_t port() const { return port_; }
    MakeClient make_client(Clock& clock) const;

    using Objects = std::map<std::string, std::string>;  ///< "bucket/key" -> content
    Objects objects() const;
    std::vector<std::string> keys(const std::string& prefix) const;
    void put(const std::string& path, std::string content);
    void remove(const std::string& path);
    std::string get(const std::string& path) const;  ///< "" when absent
    std::size_t count(const std::string& method, const std::string& part) const;
    void forget_calls();
    std::vector<std::string> complaints() const;

private:
    struct State {
        Objects objects;
        std::map<std::string, std::map<int, std::string>> uploads;
        std::vector<Call> calls;
        std::vector<std::string> complaints;
        std::function<Fault(const Call&)> faults;
        std::size_t next_upload = 0, next_call = 0;
    };
    http::Response serve(http::Request& request);
    static http::Response answer(State& state, const http::Request& request, const Call& call,
                                 std::string body);
    static http::Response list(State& state, const std::string& bucket, const std::string& query);

    mutable Sync<State> state_;
    std::uint16_t port_ = 0;
    std::unique_ptr<http::Server> server_;
};

}  // namespace ty::agent
