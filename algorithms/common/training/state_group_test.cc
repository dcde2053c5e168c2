// SPDX-License-Identifier: Apache-2.0
// Resuming on several ranks, here threads, that have different files.
#include "common/base/error.h"
#include "common/training/distributed.h"
#include "common/training/state_files.h"
#include "common/training/state_toy.h"

#include <doctest/doctest.h>

#include <barrier>
#include <functional>
#include <thread>

using namespace alg;

namespace {

/// What ranks share: one place for each one's tensor, and a meeting point.
struct Room {
    explicit Room(int world) : tensors(static_cast<std::size_t>(world)), meet(world) {}
    std::vector<at::Tensor> tensors;
    std::barrier<> meet;
};

class Rank final : public Group {
public:
    Rank(Room& room, int rank) : room_(room), rank_(rank) {}
    int rank() const override { return rank_; }
    int world() const override { return static_cast<int>(room_.tensors.size()); }
    void sum(at::Tensor& tensor) override {
        share(tensor, [this](at::Tensor& into) {
            into.zero_();
            for (const at::Tensor& other : room_.tensors) into.add_(other);
        });
    }
    void broadcast(at::Tensor& tensor, int root) override {
        share(tensor, [this, root](at::Tensor& into) {
            into.copy_(room_.tensors[static_cast<std::size_t>(root)]);
        });
    }
    void barrier() override { room_.meet.arrive_and_wait(); }
    std::unique_ptr<Pending> start_sum(at::Tensor&) override { return nullptr; }

private:
    void share(at::Tensor& tensor, const std::function<void(at::Tensor&)>& use) {
        room_.tensors[static_cast<std::size_t>(rank_)] = tensor.clone();
        barrier();
        use(tensor);
        barrier();
    }
    Room& room_;
    int rank_;
};

/// Calls run(group) on a thread per rank.
void on_ranks(int world, const std::function<void(Group&)>& run) {
    Room room(world);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world; ++rank)
        threads.emplace_back([&room, &run, rank] {
            Rank group(room, rank);
            run(group);
        });
}

void fill(const fs::path& folder, std::int64_t updates) {
    toy::Training training({.folder = folder});
    for (std::int64_t i = 0; i < updates; ++i) training.update();
    if (updates > 0) training.keeper.save_now(training.position);
}

/// Updates at which three ranks with these files start; -1: from nothing, -2: refused.
std::vector<std::int64_t> resumed(const std::vector<std::int64_t>& files,
                                  std::int64_t odd_rank = -1) {
    const std::vector<toy::Folder> folders(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) fill(folders[i].path(), files[i]);
    std::vector<std::int64_t> found(files.size());
    on_ranks(static_cast<int>(files.size()), [&](Group& group) {
        const auto rank = static_cast<std::size_t>(group.rank());
        const std::int64_t extra = group.rank() == odd_rank ? 8 : 7;
        toy::Training training({.folder = folders[rank].path(), .writer = rank == 0}, true, 20'000,
                               extra);
        try {
            const auto position = training.keeper.resume(group);
            found[rank] = position ? position->update : -1;
            if (position) training.position = *position;
            if (!training.is_of(training.position.update)) found[rank] = -3;
        } catch (const Failure&) {
            found[rank] = -2;
        }
    });
    return found;
}

using Updates = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("all ranks get the newest state that any of them has") {
    CHECK(resumed({0, 0, 0}) == Updates{-1, -1, -1});
    CHECK(resumed({4, 0, 0}) == Updates{4, 4, 4});
    CHECK(resumed({0, 3, 0}) == Updates{3, 3, 3});
    CHECK(resumed({4, 9, 9}) == Updates{9, 9, 9});
    CHECK(resumed({5, 5, 5}) == Updates{5, 5, 5});
}

TEST_CASE("when one rank's file does not fit, all ranks fail and none waits") {
    CHECK(resumed({5, 5, 5}, 1) == Updates{-2, -2, -2});
}
