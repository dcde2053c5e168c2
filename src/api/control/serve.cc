// SPDX-License-Identifier: Apache-2.0
// From a path to the function behind it.
#include "api/control/control.h"

#include "api/render.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace ty::api {

namespace control {

namespace {

struct Row {
    std::string_view method, path;  ///< "{job}" and "{checkpoint}" stand for one segment
    Json (*serve)(const Asked&);
};
constexpr std::array kRows{
    Row{"GET", "jobs/{job}", show_job},
    Row{"POST", "jobs/{job}/interrupt", interrupt},
    Row{"POST", "jobs/{job}/faults", schedule_faults},
    Row{"DELETE", "jobs/{job}/faults", end_faults},
    Row{"POST", "jobs/{job}/scale", scale},
    Row{"GET", "jobs/{job}/checkpoints", list_checkpoints},
    Row{"POST", "jobs/{job}/checkpoints/{checkpoint}/start", start_checkpoint},
    Row{"GET", "jobs/{job}/ledger", show_ledger},
    Row{"GET", "ledger", sum_ledgers},
};

/// The row's path fits; fills what its places stand for.
bool fits(const Row& row, const std::vector<std::string>& segments, Asked& asked) {
    const std::vector<std::string> wanted = split(row.path, '/');
    if (wanted.size() != segments.size()) return false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] == "{job}" && !segments[i].empty())
            asked.job = segments[i];
        else if (wanted[i] == "{checkpoint}" && !segments[i].empty())
            asked.checkpoint = segments[i];
        else if (wanted[i] != segments[i])
            return false;
    }
    return true;
}

[[noreturn]] void refuse(const Asked& asked, const std::vector<std::string>& methods) {
    const std::string path = to_valid_utf8(asked.call.request.path);
    if (!methods.empty())
        throw_error(Code::invalid, "UnknownOperationException", "{} {} is not offered; use {}",
                    to_valid_utf8(asked.call.request.method), path, join(methods, " or "));
    std::vector<std::string> known;
    for (const Row& row : kRows) known.push_back(format("{} {}{}", row.method, kRoot, row.path));
    throw_error(Code::not_found, "", "there is nothing at {}; Trainyard's own calls are {}", path,
                join(known, ", "));
}

std::vector<std::string> segments_of(const std::string& path) {
    std::vector<std::string> segments;
    for (const std::string& part : split(path.substr(kRoot.size()), '/')) {
        auto decoded = percent_decode(part);
        if (!decoded || !is_valid_utf8(*decoded))
            throw_error(Code::invalid, "ValidationException",
                        "the path has a broken percent escape in \"{}\"", to_valid_utf8(part));
        segments.push_back(std::move(*decoded));
    }
    return segments;
}

void check_region(const std::string& region) {
    const bool plain = std::ranges::all_of(region, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
    if (region.empty() || region.size() > 32 || !plain)
        throw_error(Code::invalid, "ValidationException",
                    "region \"{}\" is no region name; leave it out or write it as us-east-1",
                    to_valid_utf8(region.substr(0, 40)));
}

Json dispatch(Asked& asked) {
    for (auto& [name, value] : parse_query(asked.call.request.query)) {
        if (name == "region") {
            check_region(value);
            asked.region = value;
        } else if (!name.starts_with("X-Amz-")) {  // a signature in the query
            asked.query.emplace_back(name, value);
        }
    }
    const std::vector<std::string> segments = segments_of(asked.call.request.path);
    std::vector<std::string> methods;
    for (const Row& row : kRows) {
        if (!fits(row, segments, asked)) continue;
        if (row.method == asked.call.request.method) return row.serve(asked);
        methods.emplace_back(row.method);
    }
    refuse(asked, methods);
}

}  // namespace

jobs::Job require_job(const Asked& asked) {
    auto job = asked.call.services.jobs.find(asked.region, asked.job);
    if (!job)
        throw_error(Code::not_found, "", "there is no training job \"{}\" in {}",
                    to_valid_utf8(asked.job), asked.region);
    return std::move(*job);
}

}  // namespace control

http::Response serve_control(Call& call) {
    try {
        control::Asked asked{.call = call, .region = call.caller.region};
        http::Response response;
        response.headers.set("Content-Type", "application/json");
        response.body = dump_json(control::dispatch(asked));
        return response;
    } catch (const Error& error) {
        return render_error(Protocol::rest_json, "trainyard", error,
                            {.request_id = call.caller.request_id, .path = call.request.path});
    }
}

}  // namespace ty::api
