// SPDX-License-Identifier: Apache-2.0
// What a job's instances did with their time, and what that cost; sums of it over jobs.
#include "api/control/control.h"

#include "base/text.h"

#include <nlohmann/json.hpp>

#include <map>

namespace ty::api::control {

namespace {

double seconds_of(milliseconds time) {
    return std::chrono::duration<double>(time).count();
}

/// Of jobs that have something in common.
struct Sum {
    std::size_t jobs = 0, unpriced = 0;
    jobs::Ledger ledger;
    Costs costs;

    void add(const jobs::Ledger& more, const std::optional<Costs>& cost) {
        ++jobs;
        ledger += more;
        if (cost)
            costs += *cost;
        else
            ++unpriced;
    }
};

void add_ledger(Json& out, const jobs::Ledger& ledger) {
    out["seconds"] = times_of(ledger);
    out["interruptions"] = ledger.interruptions;
    out["restarts"] = ledger.restarts;
    if (const double part = goodput_of(ledger); part >= 0) out["goodput"] = part;
}

Json document_of(const Sum& sum, const Settings& settings) {
    Json out = {{"jobs", sum.jobs}};
    add_ledger(out, sum.ledger);
    if (settings.prices.empty()) return out;
    out["cost"] = money_of(sum.costs, settings.currency);
    out["jobs_without_price"] = sum.unpriced;
    return out;
}

struct Wish {
    std::optional<jobs::Tag> tag;
    std::string by;
};
Wish wish_of(const Asked& asked) {
    Wish wish;
    for (const auto& [name, value] : asked.query) {
        const std::size_t mark = value.find('=');
        if (name == "tag" && mark != value.npos && mark > 0 && !wish.tag)
            wish.tag = jobs::Tag{value.substr(0, mark), value.substr(mark + 1)};
        else if (name == "tag")
            throw_error(Code::invalid, "ValidationException",
                        "tag \"{}\" must be one KEY=VALUE, given once", to_valid_utf8(value));
        else if (name == "by" && !value.empty())
            wish.by = value;
        else
            throw_error(Code::invalid, "ValidationException",
                        "query parameter \"{}\" cannot be used here; there are tag=KEY=VALUE, "
                        "by=KEY and region=NAME",
                        to_valid_utf8(name));
    }
    return wish;
}

}  // namespace

Json times_of(const jobs::Ledger& ledger) {
    return {
        {"useful", seconds_of(ledger.useful)},         {"lost", seconds_of(ledger.lost)},
        {"restart", seconds_of(ledger.restart)},       {"idle", seconds_of(ledger.idle)},
        {"checkpoint", seconds_of(ledger.checkpoint)}, {"unsettled", seconds_of(ledger.unsettled)},
        {"waiting", seconds_of(ledger.waiting)},       {"billed", seconds_of(ledger.billed())}};
}

Json money_of(const Costs& costs, const std::string& currency) {
    return {{"currency", currency},
            {"spent", costs.spent},
            {"on_demand", costs.on_demand},
            {"lost", costs.lost}};
}

double goodput_of(const jobs::Ledger& ledger) {
    if (ledger.billed().count() <= 0) return -1;
    return seconds_of(ledger.useful + ledger.unsettled) / seconds_of(ledger.billed());
}

Json show_ledger(const Asked& asked) {
    const jobs::Job job = require_job(asked);
    const Settings& settings = asked.call.services.settings;
    const jobs::Ledger ledger = jobs::ledger_of(job, asked.call.services.clock.now());
    Json out = {{"job", job.spec.name},
                {"status", jobs::to_string(job.status)},
                {"instance_type", job.spec.node.instance_type},
                {"instances", job.spec.instance_count},
                {"spot", job.spec.spot}};
    add_ledger(out, ledger);
    if (const auto price = price_of(job.spec, settings))
        out["cost"] = money_of(costs_of(ledger, *price, job.spec.spot), settings.currency);
    return out;
}

Json sum_ledgers(const Asked& asked) {
    const Wish wish = wish_of(asked);
    const Settings& settings = asked.call.services.settings;
    const Instant now = asked.call.services.clock.now();
    Sum all;
    std::map<std::string, Sum> groups;
    asked.call.services.jobs.visit(asked.region, wish.tag, wish.by,
                                   [&](const jobs::Job& job, const std::string& value) {
                                       const jobs::Ledger ledger = jobs::ledger_of(job, now);
                                       std::optional<Costs> cost;
                                       if (const auto price = price_of(job.spec, settings))
                                           cost = costs_of(ledger, *price, job.spec.spot);
                                       all.add(ledger, cost);
                                       if (!wish.by.empty()) groups[value].add(ledger, cost);
                                   });
    Json out = document_of(all, settings);
    if (wish.tag) out["tag"] = {{"key", wish.tag->key}, {"value", wish.tag->value}};
    if (wish.by.empty()) return out;
    out["by"] = wish.by;
    Json list = Json::array();
    for (const auto& [value, sum] : groups) {
        Json group = {{"value", value}};
        group.update(document_of(sum, settings));
        list.push_back(std::move(group));
    }
    out["groups"] = std::move(list);
    return out;
}

}  // namespace ty::api::control
