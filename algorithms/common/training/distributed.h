// SPDX-License-Identifier: Apache-2.0
// All that train together: a process group (Gloo, NCCL where LibTorch has it) from env://, and
// gradients summed over it in buckets while the backward pass still runs.
#pragma once

#include "common/base/contract.h"
#include "common/training/module.h"

#include <memory>
#include <span>

namespace alg {

class Group {
public:
    virtual ~Group() = default;
    virtual int rank() const = 0;
    virtual int world() const = 0;
    /// Sum over all ranks, in place, every rank in the same order of calls. Blocks. Throws Failure
    /// that names the rank's host and the remedy when a peer is gone or silent for the timeout.
    virtual void sum(torch::Tensor& tensor) = 0;
    virtual void broadcast(torch::Tensor& tensor, int root) = 0;
    virtual void barrier() = 0;
    /// Started, not waited for.
    class Pending {
    public:
        virtual ~Pending() = default;
        virtual void wait() = 0;
    };
    virtual std::unique_ptr<Pending> start_sum(torch::Tensor& tensor) = 0;

    void sum(std::span<double> numbers);    ///< small lists
    std::int64_t max(std::int64_t number);  ///< largest over all ranks
};

/// A world of one needs no network. With more: TCPStore at place.master_address:master_port (rank 0
/// serves it unless torchrun already does: TORCHELASTIC_USE_AGENT_STORE), Gloo on CPU (over
/// place.interface where it exists), NCCL on CUDA.
std::unique_ptr<Group> make_group(const Place& place, torch::Device device,
                                  std::chrono::milliseconds timeout);

/// Gives every parameter a gradient that is a view into one of a few flat buckets, and sums each
/// bucket over the group as soon as the last of its gradients is complete. In a world of one
/// gradients stay as autograd made them: no buckets, no copies, and none for a parameter that was
/// not used (optimisers count that as zeros).
class GradientBuckets {
public:
    GradientBuckets(const std::vector<Parameter>& parameters, Group& group,
                    std::size_t bucket_bytes = std::size_t{4} << 20);
    ~GradientBuckets();
    /// Zero gradients; call before the first backward of an update.
    void zero();
    /// The next backward is the update's last: buckets are summed as they fill. Otherwise they only
    /// accumulate.
    void expect_last();
    /// Starts the sums that the backward pass has not started (all without overlap; buckets whose
    /// parameters got no gradient are summed as zeros). What is summed over the group after this
    /// call is summed after the buckets on every rank.
    void start_rest();
    /// start_rest(), then wait for all sums.
    void finish();
    /// Of everything, after finish(); one pass over the buckets.
    double norm() const;
    /// Overlap off, for the benchmark: sums start in finish().
    void set_overlap(bool on);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace alg
