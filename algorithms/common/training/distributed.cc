// SPDX-License-Identifier: Apache-2.0
// How ranks meet, and what they say when one of them is gone.
#include "common/training/distributed.h"

#include "common/base/error.h"
#include "common/training/backend.h"
#include "common/training/network.h"

#include <ATen/Functions.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace alg {

namespace {

std::string variable(const char* name, const std::string& otherwise = "") {
    const char* value = std::getenv(name);
    return value && *value ? value : otherwise;
}

double seconds(std::chrono::milliseconds time) {
    return std::chrono::duration<double>(time).count();
}

/// The first line without the source position that LibTorch and Gloo put before or after it.
std::string brief(const std::string& what) {
    // Of several sentences the first says what happened, the others are advice.
    std::string text = what.substr(0, std::min(what.find('\n'), what.find(". ")));
    if (text.starts_with('[')) {
        if (const auto end = text.find("] "); end != std::string::npos) {
            text.erase(0, end + 2);
        }
    }
    while (!text.empty() && (text.back() == '.' || text.back() == ' ')) {
        text.pop_back();
    }
    return text;
}

class Done final : public Group::Pending {
public:
    void wait() override {}
};

class Alone final : public Group {
public:
    int rank() const override { return 0; }
    int world() const override { return 1; }
    void sum(torch::Tensor&) override {}
    void broadcast(torch::Tensor&, int) override {}
    void barrier() override {}
    std::unique_ptr<Pending> start_sum(torch::Tensor&) override { return std::make_unique<Done>(); }
};

/// Where each rank is, to name it when it is lost.
struct Peer {
    std::string host, address;
};

class Several final : public Group {
public:
    Several(Meeting meeting, torch::Device device, c10::intrusive_ptr<c10d::Backend> backend,
            std::vector<Peer> peers)
        : meeting_(std::move(meeting)),
          device_(device),
          backend_(std::move(backend)),
          peers_(std::move(peers)) {}

    int rank() const override { return meeting_.rank; }
    int world() const override { return meeting_.world; }

    void sum(torch::Tensor& tensor) override { start_sum(tensor)->wait(); }

    void broadcast(torch::Tensor& tensor, int root) override {
        if (tensor.device().type() != device_.type()) {
            torch::Tensor there = tensor.to(device_);
            broadcast(there, root);
            tensor.copy_(there);
            return;
        }
        std::vector<torch::Tensor> list{tensor.detach()};
        c10d::BroadcastOptions options;
        options.rootRank = root;
        watched("receive the values of rank " + std::to_string(root),
                [&] { backend_->broadcast(list, options)->wait(); });
    }

    void barrier() override {
        torch::Tensor nothing = at::zeros({1}, at::TensorOptions().device(device_));
        watched("wait for all others", [&] { started(nothing)->wait(); });
    }

    std::unique_ptr<Pending> start_sum(torch::Tensor& tensor) override {
        // Small lists come as CPU tensors whatever the device.
        if (tensor.device().type() != device_.type()) {
            torch::Tensor there = tensor.to(device_);
            sum(there);
            tensor.copy_(there);
            return std::make_unique<Done>();
        }
        c10::intrusive_ptr<c10d::Work> work;
        watched("sum", [&] { work = started(tensor); });
        return std::make_unique<Started>(*this, std::move(work));
    }

private:
    class Started final : public Pending {
    public:
        Started(Several& group, c10::intrusive_ptr<c10d::Work> work)
            : group_(group), work_(std::move(work)) {}
        void wait() override {
            group_.watched("sum", [this] { work_->wait(); });
        }

    private:
        Several& group_;
        c10::intrusive_ptr<c10d::Work> work_;
    };

    c10::intrusive_ptr<c10d::Work> started(torch::Tensor& tensor) {
        std::vector<torch::Tensor> list{tensor.detach()};
        return backend_->allreduce(list);
    }

    template <typename Call>
    void watched(const std::string& doing, const Call& call) {
        try {
            call();
        } catch (const Failure&) {
            throw;
        } catch (const std::exception& error) {
            lost(doing, brief(error.what()));
        }
    }

    [[noreturn]] void lost(const std::string& doing, const std::string& what) const {
        if (what.find("imed out") != std::string::npos ||
            what.find("imeout") != std::string::npos) {
            fail(
                "rank {} of {} could not {}: no answer within {} s ({}); a rank hangs or its host "
                "or network is down: see the logs of {}, then start again from the newest "
                "checkpoint",
                rank(), world(), doing, seconds(meeting_.timeout), what, hosts(""));
        }
        // Gloo names the peer as [address]:port.
        std::string address;
        if (const auto open = what.rfind('['), close = what.rfind("]:");
            open != std::string::npos && close != std::string::npos && open < close) {
            address = what.substr(open + 1, close - open - 1);
        }
        fail(
            "rank {} of {} could not {}: lost the connection to a rank on {} ({}); it has ended or "
            "was killed: see its log for the cause, then start again from the newest checkpoint",
            rank(), world(), doing, hosts(address), what);
    }

    /// "algo-2 (10.0.0.2)", all that have this address; all others where none has.
    std::string hosts(const std::string& address) const {
        std::map<std::string, std::string> fitting, others;
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            if (static_cast<int>(i) == rank()) continue;
            others.emplace(peers_[i].host, peers_[i].address);
            if (peers_[i].address == address) {
                fitting.emplace(peers_[i].host, peers_[i].address);
            }
        }
        std::string text;
        for (const auto& [host, at] : fitting.empty() ? others : fitting) {
            text += (text.empty() ? "" : ", ") + format("{} ({})", host, at);
        }
        return text;
    }

    Meeting meeting_;
    torch::Device device_;
    c10::intrusive_ptr<c10d::Backend> backend_;
    std::vector<Peer> peers_;
};

c10::intrusive_ptr<c10d::Store> open_store(const Place& place, std::chrono::milliseconds timeout) {
    // torchrun serves the store itself in most of its ways; then every rank is a client.
    const bool served = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(place.master_port);
    options.isServer = !served && place.rank == 0;
    options.waitWorkers = false;
    options.timeout = timeout;
    options.multiTenant = true;
    c10::intrusive_ptr<c10d::Store> store;
    try {
        store = c10::make_intrusive<c10d::TCPStore>(place.master_address, options);
    } catch (const std::exception& error) {
        const std::string place_text = format("{}:{}", place.master_address, place.master_port);
        if (options.isServer) {
            fail("rank 0 cannot serve the meeting point {} ({}); set MASTER_PORT to a free port",
                 place_text, brief(error.what()));
        }
        fail(
            "rank {} cannot reach the meeting point {} within {} s ({}); check that {} runs and "
            "that MASTER_ADDR and MASTER_PORT are right and not blocked",
            place.rank, place_text, seconds(timeout), brief(error.what()),
            served ? "the launcher" : "rank 0");
    }
    // A launcher's store outlives its workers: what an earlier attempt left must not be found.
    return c10::make_intrusive<c10d::PrefixStore>(
        format("trainyard/{}/{}/{}", variable("TORCHELASTIC_RUN_ID", "none"),
               variable("TORCHELASTIC_RESTART_COUNT", "0"), place.world),
        store);
}

/// Everybody's host and address; waits for all.
std::vector<Peer> exchange(c10d::Store& store, const Place& place, const std::string& address) {
    store.set(format("peer/{}", place.rank), format("{}\n{}", place.current_host, address));
    std::vector<Peer> peers;
    for (int rank = 0; rank < place.world; ++rank) {
        const std::vector<std::uint8_t> bytes = store.get(format("peer/{}", rank));
        const std::string text(bytes.begin(), bytes.end());
        const auto line = text.find('\n');
        peers.push_back({text.substr(0, line), text.substr(line + 1)});
    }
    return peers;
}

}  // namespace

void Group::sum(std::span<double> numbers) {
    if (world() == 1) {
        return;
    }
    torch::Tensor tensor =
        at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kDouble);
    sum(tensor);
}

std::int64_t Group::max(std::int64_t number) {
    if (world() == 1) {
        return number;
    }
    // Every rank fills its own place: a sum serves for a maximum.
    torch::Tensor all = at::zeros({world()}, at::kLong);
    all[rank()].fill_(number);
    sum(all);
    return all.max().item<std::int64_t>();
}

std::unique_ptr<Group> make_group(const Place& place, torch::Device device,
                                  std::chrono::milliseconds timeout) {
    if (place.world == 1) {
        return std::make_unique<Alone>();
    }
    Meeting meeting{open_store(place, timeout), place.rank, place.world, timeout};
    const std::string address = own_address(place, variable("GLOO_SOCKET_IFNAME"));
    std::unique_ptr<Group> group;
    try {
        std::vector<Peer> peers = exchange(*meeting.store, place, address);
        auto backend = device.is_cuda() ? make_nccl(meeting) : make_gloo(meeting, address);
        group = std::make_unique<Several>(std::move(meeting), device, std::move(backend),
                                          std::move(peers));
    } catch (const Failure&) {
        throw;
    } catch (const std::exception& error) {
        fail(
            "rank {} of {} ({}) could not connect to all others within {} s ({}); check that all "
            "ranks have started, that none has ended, and that hosts reach each other{}",
            place.rank, place.world, place.current_host, seconds(timeout), brief(error.what()),
            place.interface.empty() ? "; GLOO_SOCKET_IFNAME names the network interface to use"
                                    : "");
    }
    // Rank 0 may end, and its store with it, only after all have read from it.
    group->barrier();
    return group;
}

}  // namespace alg
