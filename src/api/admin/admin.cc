// SPDX-License-Identifier: Apache-2.0
// See admin.h.
#include "api/admin/admin.h"

#include "sys/sys.h"

#include <unistd.h>

#include <iterator>

namespace ty::api {

namespace {

void describe(std::string& out, std::string_view name, std::string_view type,
              std::string_view help) {
    fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

/// Backslash, quote and line feed are all that a label value must not hold raw.
std::string label(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '"') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out;
}

void add_jobs(std::string& out, const jobs::JobService::Counters& jobs) {
    describe(out, "trainyard_jobs_running", "gauge",
             "Jobs that have started and are not finished.");
    fmt::format_to(std::back_inserter(out), "trainyard_jobs_running {}\n", jobs.running);
    describe(out, "trainyard_jobs_created_total", "counter", "Jobs accepted.");
    fmt::format_to(std::back_inserter(out), "trainyard_jobs_created_total {}\n", jobs.created);
    describe(out, "trainyard_jobs_finished_total", "counter",
             "Jobs that reached a terminal state.");
    const std::pair<std::string_view, std::uint64_t> states[] = {
        {"Completed", jobs.completed}, {"Failed", jobs.failed}, {"Stopped", jobs.stopped}};
    for (const auto& [state, count] : states)
        fmt::format_to(std::back_inserter(out),
                       "trainyard_jobs_finished_total{{state=\"{}\"}} {}\n", state, count);
}

void add_requests(std::string& out, const std::vector<RequestCounts::Row>& rows) {
    describe(out, "trainyard_requests_total", "counter",
             "Requests answered, by service and HTTP status.");
    for (const RequestCounts::Row& row : rows)
        fmt::format_to(std::back_inserter(out),
                       "trainyard_requests_total{{service=\"{}\",status=\"{}\"}} {}\n",
                       label(row.service), row.status, row.requests);
    describe(out, "trainyard_request_seconds_total", "counter",
             "Time spent answering them, without streaming.");
    for (const RequestCounts::Row& row : rows)
        fmt::format_to(std::back_inserter(out),
                       "trainyard_request_seconds_total{{service=\"{}\",status=\"{}\"}} {:.6f}\n",
                       label(row.service), row.status, row.seconds);
}

double seconds_of(milliseconds time) {
    return std::chrono::duration<double>(time).count();
}

void add_ledger(std::string& out, const LedgerMeter::Sums& sums) {
    const jobs::Ledger& time = sums.time;
    describe(out, "trainyard_instance_seconds_total", "counter",
             "Time of jobs' instances by what came of it; class waiting is time without one.");
    const std::pair<std::string_view, milliseconds> classes[] = {
        {"useful", time.useful},         {"lost", time.lost},
        {"restart", time.restart},       {"idle", time.idle},
        {"checkpoint", time.checkpoint}, {"waiting", time.waiting}};
    for (const auto& [name, spent] : classes)
        fmt::format_to(std::back_inserter(out),
                       "trainyard_instance_seconds_total{{class=\"{}\"}} {:.3f}\n", name,
                       seconds_of(spent));
    describe(out, "trainyard_instance_seconds_open", "gauge",
             "Time of running instances whose class is not known yet.");
    fmt::format_to(std::back_inserter(out), "trainyard_instance_seconds_open {:.3f}\n", sums.open);
    describe(out, "trainyard_interruptions_total", "counter", "Interruptions of jobs and nodes.");
    fmt::format_to(std::back_inserter(out), "trainyard_interruptions_total {}\n",
                   time.interruptions);
    describe(out, "trainyard_restarts_total", "counter",
             "Attempts and nodes that replaced others.");
    fmt::format_to(std::back_inserter(out), "trainyard_restarts_total {}\n", time.restarts);
    if (!sums.has_prices) return;
    describe(out, "trainyard_cost_total", "counter",
             "Money at the configured prices: spent, what the useful time had cost on demand, "
             "spent on training that was lost.");
    const std::pair<std::string_view, double> kinds[] = {{"spent", sums.money.spent},
                                                         {"on_demand", sums.money.on_demand},
                                                         {"lost", sums.money.lost}};
    for (const auto& [kind, money] : kinds)
        fmt::format_to(std::back_inserter(out),
                       "trainyard_cost_total{{kind=\"{}\",currency=\"{}\"}} {:.6f}\n", kind,
                       label(sums.currency), money);
}

}  // namespace

std::string render_metrics(const AdminFacts& facts) {
    std::string out;
    add_jobs(out, facts.jobs);
    add_ledger(out, facts.ledger);
    describe(out, "trainyard_uptime_seconds", "gauge", "Time since the daemon started to serve.");
    fmt::format_to(std::back_inserter(out), "trainyard_uptime_seconds {:.3f}\n", facts.uptime);
    describe(out, "process_resident_memory_bytes", "gauge", "Resident memory of the daemon.");
    fmt::format_to(std::back_inserter(out), "process_resident_memory_bytes {}\n",
                   facts.resident.count());
    add_requests(out, facts.requests);
    return out;
}

http::Response answer_admin(Services& services, const http::Request& request,
                            const RequestCounts& counts, const LedgerMeter& meter,
                            Monotonic started) {
    http::Response response;
    if (request.path == "/metrics") {
        AdminFacts facts;
        facts.jobs = services.jobs.counters();
        facts.uptime = std::chrono::duration<double>(services.clock.monotonic() - started).count();
        facts.resident = sys::resident_memory(int(::getpid()));
        facts.requests = counts.rows();
        facts.ledger = meter.sums(services.clock.now());
        response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
        response.body = render_metrics(facts);
    } else {
        response.headers.set("Content-Type", "application/json");
        response.body = "{\"status\":\"ok\"}\n";
    }
    response.headers.set("Cache-Control", "no-store");
    if (request.method == "HEAD") {
        response.headers.set("Content-Length", std::to_string(response.body.size()));
        response.head_only = true;
    }
    return response;
}

http::Response serve_admin(Services& services, http::Request& request) {
    return answer_admin(services, request, RequestCounts(), LedgerMeter(services.settings),
                        services.clock.monotonic());
}

}  // namespace ty::api
