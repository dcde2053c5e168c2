// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include "agent/control_plane.h"
#include "agent/life.h"
#include "agent/orders.h"
#include "agent/partition.h"
#include "agent/presence.h"
#include "agent/uplink.h"
#include "agent/verdict.h"
#include "aws/aws.h"
#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"

#include <csignal>
#include <cstdlib>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr milliseconds kTransferLimit = 24h;
constexpr milliseconds kPlanPatience = 30s;

/// Clients of the job's object storage. While the network is cut their requests wait, as if they
/// were lost and repeated.
MakeClient clients(const plan::NodePlan& plan, const Partition& partition, Clock& clock) {
    return [&plan, &partition, &clock] {
        auto client = std::make_unique<aws::S3Client>(
            http::parse_url(plan.endpoint),
            aws::Credentials{plan.credentials.access_key, plan.credentials.secret_key,
                             plan.credentials.session_token},
            plan.region, clock);
        client->set_gate([&partition] {
            if (partition.is_cut())
                throw_error(Code::unavailable, "Partition", "the network of this node is cut");
        });
        return client;
    };
}

/// Deliver the end, last line first. Returns when the daemon has it or nobody wants it.
void deliver(Uplink& uplink, Orders& orders, const sys::fs::path& folder, std::string_view how) {
    (void)uplink.flush(Deadline::never(), orders.gone());
    sys::write_file(folder / "agent.done", std::string(how) + "\n");
}

}  // namespace

int run_agent(const sys::fs::path& folder) {
    sys::SignalFd signals({SIGTERM, SIGINT, SIGHUP});
    sys::ignore_sigpipe();
    keep_lock();
    write_pid_file(folder);
    Probe probe;  // works while the plan is on its way
    SystemClock clock;
    HostPaths paths;
    paths.folder = folder;
    make_folders(paths.scratch());
    Partition partition;
    Start start = read_start(paths.start());
    start.partition = &partition;
    Orders orders(partition);
    TaskGroup listeners;
    listeners.start("signals", [&](const std::stop_token& stop) {
        // Whoever signals the agent wants the job gone, not finished.
        while (sys::wait(signals.fd(), sys::Readiness::readable, Deadline::never(), stop) ==
               sys::Waited::ready) {
            if (signals.next() != 0) orders.give_up();
        }
    });
    Uplink uplink(
        start, paths.events(), clock,
        {.on_command = [&orders](std::uint64_t number,
                                 const plan::Command& command) { orders.obey(number, command); },
         .on_gone = [&orders] { orders.give_up(); }});
    switch (uplink.earlier()) {
        case Uplink::Earlier::none:
            break;
        case Uplink::Earlier::unfinished:
            uplink.emit(plan::Finished{
                agent_error("an earlier agent of this attempt ended without a word"), false});
            [[fallthrough]];
        case Uplink::Earlier::finished:
            deliver(uplink, orders, folder, "delivered");
            return 0;
    }
    ControlPlane daemon(start);
    ControlPlane::Reply reply;
    try {
        reply = daemon.call_patiently("GET", "plan", "", kPlanPatience, orders.gone());
    } catch (const Error& error) {
        if (error.code() != Code::cancelled) throw;
        reply.verdict = ControlPlane::Verdict::gone;
    }
    if (reply.verdict == ControlPlane::Verdict::gone) {
        sys::write_file(folder / "agent.done", "gone\n");
        return 0;
    }
    Result<plan::NodePlan> plan = capture([&] { return plan::plan_from_json(reply.body); });
    if (!plan.ok()) {
        uplink.emit(plan::Finished{agent_error(plan.error().what()), false});
        deliver(uplink, orders, folder, "refused");
        return 0;
    }
    LogPump pump(start, plan.value().stream, paths.log_spool(), clock,
                 [&orders] { orders.give_up(); });
    plan::Finished finished;
    try {
        const NodeContext node{start,
                               plan.value(),
                               paths,
                               pump,
                               uplink,
                               orders,
                               partition,
                               clock,
                               clients(plan.value(), partition, clock),
                               Deadline::in(kTransferLimit)};
        finished = live(node, probe.finish());
    } catch (const Error& error) {
        finished.outcome = agent_error(error.what());
    }
    // All lines before the end: a client that sees the end reads the log once more and leaves.
    (void)pump.flush(Deadline::never(), orders.gone());
    if (!orders.now().gone) uplink.emit(finished);
    deliver(uplink, orders, folder, orders.now().gone ? "gone" : "finished");
    return 0;
}

}  // namespace ty::agent
