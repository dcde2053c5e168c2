// SPDX-License-Identifier: Apache-2.0
// See prices.h.
#include "api/prices.h"

namespace ty::api {

namespace {

double hours(milliseconds time) {
    return std::chrono::duration<double, std::ratio<3600>>(time).count();
}

}  // namespace

std::optional<Price> price_of(const jobs::JobSpec& spec, const Settings& settings) {
    if (settings.prices.empty()) return std::nullopt;
    const auto find = [&settings](const std::string& type) -> const Price* {
        const auto found = settings.prices.find(type);
        return found == settings.prices.end() ? nullptr : &found->second;
    };
    if (spec.node.groups.empty()) {
        const Price* price = find(spec.node.instance_type);
        return price != nullptr ? std::optional<Price>(*price) : std::nullopt;
    }
    Price sum;
    double hosts = 0;
    for (const plan::InstanceGroup& group : spec.node.groups) {
        const Price* price = find(group.instance_type);
        if (price == nullptr) return std::nullopt;
        const auto count = static_cast<double>(group.hosts.size());
        sum.on_demand += price->on_demand * count;
        sum.spot += price->spot * count;
        hosts += count;
    }
    if (hosts <= 0) return std::nullopt;
    return Price{.on_demand = sum.on_demand / hosts, .spot = sum.spot / hosts};
}

double paid_ratio(const jobs::JobSpec& spec, const Settings& settings) {
    if (!spec.spot) return 1;
    const auto price = price_of(spec, settings);
    return price && price->on_demand > 0 ? price->spot / price->on_demand : 1;
}

Costs& Costs::operator+=(const Costs& other) {
    spent += other.spent;
    on_demand += other.on_demand;
    lost += other.lost;
    return *this;
}

Costs costs_of(const jobs::Ledger& ledger, const Price& price, bool spot) {
    const double paid = spot ? price.spot : price.on_demand;
    return {.spent = hours(ledger.billed()) * paid,
            .on_demand = hours(ledger.useful) * price.on_demand,
            .lost = hours(ledger.lost) * paid};
}

}  // namespace ty::api
