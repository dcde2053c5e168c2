// SPDX-License-Identifier: Apache-2.0
// What a user asks of a job that runs: faults to prove that it survives them, another size. Checked
// against the stored job in the transaction that changes it.
#include "base/error.h"
#include "base/text.h"
#include "jobs/impl.h"

#include <algorithm>

namespace ty::jobs {

namespace {

constexpr milliseconds kShortestEvery{100};
constexpr milliseconds kLongestFault{24L * 3600 * 1000};

[[noreturn]] void refuse(const std::string& message) {
    throw Error(Code::invalid, "ValidationException", message);
}

/// Hosts with an agent that runs.
std::vector<std::string> running_hosts(const Job& job) {
    std::vector<std::string> hosts;
    if (job.attempts.empty() || job.attempts.back().ended) return hosts;
    for (const auto& [name, node] : job.attempts.back().nodes)
        if (!node.finished && node.launched && !node.leave_by && node.killed.empty())
            hosts.push_back(node.host);
    return hosts;
}

void check_in_progress(const Job& job) {
    if (job.status == Status::in_progress) return;
    refuse(fmt::format("training job \"{}\" is not running, its status is {}", job.spec.name,
                       to_string(job.status)));
}

void check_fault(const Job& job, const Fault& fault) {
    check_in_progress(job);
    const bool alone = job.spec.instance_count == 1 && !job.spec.node.elastic;
    if (fault.kind == Fault::Kind::partition && alone)
        refuse(fmt::format(
            "training job \"{}\" has one instance, which shares the machine's network; it cannot "
            "be cut off. Ask for a freeze, or give the job several instances",
            job.spec.name));
    if (fault.time < milliseconds(0) || fault.time > kLongestFault)
        refuse(fmt::format("a fault of {} ms is not possible; give 0 to {} ms", fault.time.count(),
                           kLongestFault.count()));
}

/// A schedule may wait for the host; a single fault is for now.
void check_target(const Job& job, const Fault& fault) {
    const std::vector<std::string> hosts = running_hosts(job);
    if (hosts.empty() || !job.attempts.back().interrupted.empty())
        refuse(
            fmt::format("training job \"{}\" is not running, no instance of it is up ({}); try "
                        "again when it is training",
                        job.spec.name, to_string(job.secondary())));
    if (fault.host.empty() || std::ranges::find(hosts, fault.host) != hosts.end()) return;
    refuse(fmt::format("training job \"{}\" has no host \"{}\"; it runs on {}", job.spec.name,
                       fault.host, join(hosts, ", ")));
}

void check_host_name(const Job& job, const Fault& fault) {
    const int most =
        job.spec.node.elastic ? job.spec.node.elastic->max_nodes : job.spec.instance_count;
    if (fault.host.empty()) return;
    for (int i = 1; i <= most; ++i)
        if (fault.host == fmt::format("algo-{}", i)) return;
    refuse(fmt::format("training job \"{}\" has no host \"{}\"; it has algo-1 to algo-{}",
                       job.spec.name, fault.host, most));
}

}  // namespace

void JobService::inject(const std::string& region, const std::string& name, const Fault& fault) {
    Impl::Moved moved;
    impl_->db.write([&](store::Tx& tx) {
        Row row = need_job(tx, region, name);
        check_fault(row.job, fault);
        check_target(row.job, fault);
        moved = impl_->move(tx, std::move(row), {FaultRequested{fault}});
    });
    impl_->publish(std::move(moved));
}

void JobService::schedule_faults(const std::string& region, const std::string& name,
                                 const std::optional<FaultSchedule>& schedule) {
    Impl::Moved moved;
    impl_->db.write([&](store::Tx& tx) {
        Row row = need_job(tx, region, name);
        if (schedule) {
            check_fault(row.job, schedule->fault);
            check_host_name(row.job, schedule->fault);
            if (schedule->every < kShortestEvery)
                refuse(fmt::format("faults every {} ms are too many; give {} ms or more",
                                   schedule->every.count(), kShortestEvery.count()));
        }
        moved = impl_->move(tx, std::move(row), {FaultsScheduled{schedule}});
    });
    impl_->publish(std::move(moved));
}

void JobService::scale(const std::string& region, const std::string& name, int instances) {
    Impl::Moved moved;
    impl_->db.write([&](store::Tx& tx) {
        Row row = need_job(tx, region, name);
        check_in_progress(row.job);
        if (!row.job.spec.node.elastic)
            refuse(
                fmt::format("training job \"{}\" is not elastic; create it with a range of "
                            "instances to scale it",
                            name));
        const plan::Elastic& range = *row.job.spec.node.elastic;
        if (instances < range.min_nodes || instances > range.max_nodes)
            refuse(fmt::format("training job \"{}\" may have {} to {} instances, not {}", name,
                               range.min_nodes, range.max_nodes, instances));
        moved = impl_->move(tx, std::move(row), {ScaleRequested{instances}});
    });
    impl_->publish(std::move(moved));
}

}  // namespace ty::jobs
