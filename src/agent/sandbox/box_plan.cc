// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/box_plan.h"

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

namespace ty::agent {

namespace {

Json texts(const std::vector<std::string>& items) {
    Json list = Json::array();
    for (const std::string& item : items) list.push_back(to_base64(as_bytes(item)));
    return list;
}

/// Arguments and variables are bytes, not text: base64 keeps what JSON would bend.
std::vector<std::string> read_texts(const Json& list) {
    std::vector<std::string> items;
    for (const Json& item : list)
        items.push_back(from_base64(item.get<std::string>()).value_or(""));
    return items;
}

}  // namespace

std::string_view to_string(Rung rung) {
    switch (rung) {
        case Rung::namespaces:
            return "namespaces";
        case Rung::process:
            return "process";
    }
    return {};
}

std::string to_json(const BoxPlan& plan) {
    Json binds = Json::array();
    for (const BoxBind& bind : plan.binds) {
        binds.push_back({bind.source, bind.target, bind.access == BoxBind::Access::writable});
    }
    Json files = Json::array();
    for (const auto& [path, content] : plan.files)
        files.push_back({path, to_base64(as_bytes(content))});
    Json addresses = Json::array();
    for (const auto& [host, address] : plan.addresses) addresses.push_back({host, address});
    return dump_json(Json{{"rung", to_string(plan.rung)},
                          {"root", plan.root},
                          {"host", plan.host},
                          {"addresses", std::move(addresses)},
                          {"joins_user", plan.joins_user},
                          {"joins_network", plan.joins_network},
                          {"binds", std::move(binds)},
                          {"files", std::move(files)},
                          {"shm", plan.shared_memory.count()},
                          {"gpus", plan.gpus},
                          {"cgroup", plan.cgroup},
                          {"argv", texts(plan.argv)},
                          {"env", texts(plan.env)},
                          {"cwd", plan.cwd}});
}

BoxPlan box_plan_from_json(std::string_view text) {
    const Json document = parse_json(text);
    try {
        BoxPlan plan;
        plan.rung = document.at("rung") == "process" ? Rung::process : Rung::namespaces;
        plan.root = document.at("root").get<std::string>();
        plan.host = document.at("host").get<std::string>();
        for (const Json& entry : document.at("addresses")) {
            plan.addresses.emplace_back(entry.at(0).get<std::string>(),
                                        entry.at(1).get<std::string>());
        }
        plan.joins_user = document.at("joins_user").get<bool>();
        plan.joins_network = document.at("joins_network").get<bool>();
        for (const Json& bind : document.at("binds")) {
            plan.binds.push_back(
                {bind.at(0).get<std::string>(), bind.at(1).get<std::string>(),
                 bind.at(2).get<bool>() ? BoxBind::Access::writable : BoxBind::Access::read_only});
        }
        for (const Json& file : document.at("files")) {
            plan.files.emplace_back(file.at(0).get<std::string>(),
                                    from_base64(file.at(1).get<std::string>()).value_or(""));
        }
        plan.shared_memory = Bytes(document.at("shm").get<std::uint64_t>());
        plan.gpus = document.at("gpus").get<bool>();
        plan.cgroup = document.at("cgroup").get<std::string>();
        plan.argv = read_texts(document.at("argv"));
        plan.env = read_texts(document.at("env"));
        plan.cwd = document.at("cwd").get<std::string>();
        return plan;
    } catch (const nlohmann::json::exception& error) {
        throw_error(Code::invalid, "MalformedBoxPlan", "box plan: {}", error.what());
    }
}

std::string to_text(const BoxReport& report) {
    switch (report.kind) {
        case BoxReport::Kind::started:
            return "started";
        case BoxReport::Kind::failed:
            return format("failed {} {}", report.missing, report.text);
        case BoxReport::Kind::ended:
            return format("ended {} {}", report.code, report.signal);
    }
    return {};
}

BoxReport box_report_from_text(std::string_view text) {
    BoxReport report;
    const std::vector<std::string> words = split(text, ' ');
    if (words[0] == "started") return report;
    if (words[0] == "ended" && words.size() == 3) {
        report.kind = BoxReport::Kind::ended;
        report.code = static_cast<int>(parse_int(words[1]).value_or(1));
        report.signal = static_cast<int>(parse_int(words[2]).value_or(0));
        return report;
    }
    report.kind = BoxReport::Kind::failed;
    if (words[0] == "failed" && words.size() >= 3) {
        report.missing = static_cast<int>(parse_int(words[1]).value_or(0));
        report.text = text.substr(words[0].size() + words[1].size() + 2);
    } else {
        report.text = "the box sent a message nobody understands";
    }
    return report;
}

}  // namespace ty::agent
