// SPDX-License-Identifier: Apache-2.0
#include "agent/network/network_main.h"

#include "agent/launcher/coordinator/coordinator_host.h"
#include "agent/network/parcel.h"
#include "agent/network/switch.h"
#include "agent/presence.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/sys.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr const char* kSelf = "/proc/self/exe";

int number_in(const Json& document, const char* name, int least) {
    const auto found = document.find(name);
    if (found == document.end() || !found->is_number_integer() || *found < least ||
        *found > kMostHosts) {
        throw_error(Code::invalid, "MalformedNetwork",
                    "network.json: \"{}\" must be a number from {} to {}", name, least, kMostHosts);
    }
    return found->get<int>();
}

std::string text_in(const Json& document, const char* name) {
    const auto found = document.find(name);
    if (found == document.end() || !found->is_string()) {
        throw_error(Code::invalid, "MalformedNetwork", "network.json: \"{}\" must be a string",
                    name);
    }
    return found->get<std::string>();
}

ElasticJob read_elastic(const Json& document) {
    ElasticJob job;
    job.id = text_in(document, "run_id");
    job.token = text_in(document, "token");
    job.min_nodes = number_in(document, "min_nodes", 1);
    job.max_nodes = number_in(document, "max_nodes", job.min_nodes);
    job.expected_nodes = number_in(document, "expected_nodes", 0);
    job.max_restarts = number_in(document, "max_restarts", 0);
    const auto checkpoints = document.find("checkpoints");
    job.has_checkpoints = checkpoints != document.end() && *checkpoints == true;
    return job;
}

/// Two for each host, and a thousand hosts may come.
void raise_descriptor_limit() {
    rlimit files = {};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
}

class NetworkProcess {
public:
    NetworkProcess(NetworkOrders orders, sys::Fd listener)
        : orders_(std::move(orders)), listener_(std::move(listener)) {
        const Result<std::monostate> built = capture([this] { build(); });
        if (!built.ok()) {
            broken_ = built.error();
            switch_.reset();
            log::error("this machine allows no network for jobs of several instances",
                       {{"error", broken_->what()}});
        }
    }

    int run() {
        poller_.add(listener_.get(), [this] { accept_all(); });
        while (hopeless_.empty()) poller_.run_once(Deadline::in(60s), {});
        log::error("the network of the attempt ends", {{"error", hopeless_}});
        return 1;
    }

private:
    struct Client {
        sys::Fd fd;
        int host = 0, taken = 0;  ///< of the place it has
    };

    void build() {
        switch_ = std::make_unique<Switch>();
        for (int number = 1; number <= orders_.hosts; ++number) switch_->make_host(number);
        if (!orders_.elastic) return;
        rendezvous_ = switch_->listen_on_switch(kRendezvousPort);
        coordinator_ = std::make_unique<CoordinatorHost>(
            poller_, kSelf, external_coordinator(*orders_.elastic),
            std::vector<int>{rendezvous_.get()},
            CoordinatorHost::Events{
                .on_note = [this](const rendezvous::Effects::Note& note) { on_note(note); },
                .on_hopeless = [this](const std::string& why) { hopeless_ = why; }});
        coordinator_->launch();
    }

    void on_note(const rendezvous::Effects::Note& note) {
        std::string fields;
        for (const auto& [key, value] : note.fields) fields += format(" {}={}", key, value);
        log::info("coordinator", {{"what", note.what + fields}});
        // It lives: deaths are counted in a row.
        if (!note.what.starts_with("coordinator_")) coordinator_->worked();
    }

    void accept_all() {
        for (;;) {
            sys::Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!fd.is_open()) {
                if (errno == EINTR) continue;
                return;  // nobody more, or out of descriptors: poll brings us back
            }
            const int number = fd.get();
            clients_[number].fd = std::move(fd);
            poller_.add(number, [this, number] { serve(clients_.at(number)); });
        }
    }

    void serve(Client& client) {
        const int number = client.fd.get();
        const Result<bool> served = capture([&] {
            const std::optional<Parcel> parcel = receive_parcel(number);
            if (parcel) answer(client, parcel->text);
            return parcel.has_value();
        });
        if (served.ok() && Result<bool>(served).value()) return;
        // The host stays: what its dying programs still send tells their peers that they are gone.
        poller_.remove(number);
        clients_.erase(number);
    }

    void answer(Client& client, std::string_view text) {
        std::vector<int> fds;
        std::vector<sys::Fd> owned;
        Json reply;
        try {
            if (broken_) throw Error(*broken_);
            const Json request = parse_json(text);
            if (request.contains("join")) {
                owned.push_back(join(client, request, reply));
                fds = {owned[0].get(), switch_->network_of(client.host), switch_->own_network()};
                if (switch_->user() >= 0) fds.push_back(switch_->user());
            } else {
                const bool up = request.at("link").get<bool>();
                switch_->set_link(client.host, client.taken, up);
                log::info(up ? "link up" : "link down", {{"host", host_name(client.host)}});
            }
        } catch (const Error& error) {
            reply = {{"code", to_string(error.code())}, {"error", error.what()}};
        } catch (const nlohmann::json::exception& error) {
            reply = {{"code", "invalid"}, {"error", error.what()}};
        }
        send_parcel(client.fd.get(), dump_json(reply), fds);
    }

    sys::Fd join(Client& client, const Json& request, Json& reply) {
        const std::string name = request.at("join").get<std::string>();
        const int number = host_number(name);
        const Endpoint daemon = parse_endpoint(request.at("daemon").get<std::string>());
        client.taken = switch_->take_host(number);
        client.host = number;
        named_ = std::max({named_, orders_.named_hosts(), number});
        Json addresses = Json::array();
        for (const auto& [host, address] : host_list(named_)) addresses.push_back({host, address});
        reply = {{"addresses", std::move(addresses)},
                 {"interface", "eth0"},
                 {"rendezvous", orders_.elastic
                                    ? format("{}:{}", to_string(switch_address()), kRendezvousPort)
                                    : std::string()}};
        log::info("host taken", {{"host", name}, {"time", client.taken}});
        return switch_->listen_in(number, daemon);
    }

    const NetworkOrders orders_;
    sys::Poller poller_;
    sys::Fd listener_;
    std::optional<Error> broken_;
    std::unique_ptr<Switch> switch_;
    sys::Fd rendezvous_;
    std::unique_ptr<CoordinatorHost> coordinator_;
    std::map<int, Client> clients_;
    int named_ = 0;
    std::string hopeless_;
};

}  // namespace

NetworkOrders network_orders_from_json(std::string_view text) {
    const Json document = parse_json(text);
    if (!document.is_object())
        throw_error(Code::invalid, "MalformedNetwork", "network.json: must be an object");
    NetworkOrders orders;
    orders.hosts = number_in(document, "hosts", 1);
    const auto elastic = document.find("rendezvous");
    if (elastic != document.end() && !elastic->is_null()) {
        if (!elastic->is_object()) {
            throw_error(Code::invalid, "MalformedNetwork",
                        "network.json: \"rendezvous\" must be an object or null");
        }
        orders.elastic = read_elastic(*elastic);
    }
    return orders;
}

std::string why_no_network() {
    const Result<std::monostate> built = capture([] { Switch().make_host(1); });
    return built.ok() ? std::string() : built.error().what();
}

int network_main(const sys::fs::path& folder) {
    sys::ignore_sigpipe();
    keep_lock();
    write_pid_file(folder);
    raise_descriptor_limit();
    NetworkOrders orders = network_orders_from_json(sys::read_file(folder / "network.json"));
    // Listening first: who comes early waits in the queue.
    sys::Fd listener = listen_at(folder / "socket");
    return NetworkProcess(std::move(orders), std::move(listener)).run();
}

}  // namespace ty::agent
