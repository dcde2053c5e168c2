// SPDX-License-Identifier: Apache-2.0
#include "cli/explain.h"

#include "cli/verb.h"

namespace ty::cli {

namespace {

struct Advice {
    std::string remedy;
    int exit_code;
};

Advice advice_for(const Error& error) {
    switch (error.code()) {
        case Code::not_found:
            return {"list what exists with `trainyard jobs`", kNotFound};
        case Code::unavailable:
        case Code::timed_out:
            return {
                "is the daemon running? `trainyard up` starts it, `trainyard doctor` looks closer",
                kUnreachable};
        case Code::denied:
            return {
                "the keys in the state folder do not match the running daemon; `trainyard down`, "
                "then `trainyard up`",
                kDenied};
        case Code::exhausted:
            return {"free some disk space or memory, then try again", kFailure};
        case Code::internal:
            return {
                "this is a defect of Trainyard; the daemon's log (daemon.log in the state folder) "
                "has the details",
                kFailure};
        case Code::invalid:
        case Code::conflict:
        case Code::cancelled:
        case Code::corrupt:
        case Code::unsupported:
            return {"", kFailure};
    }
    return {"", kFailure};
}

}  // namespace

Explanation explain(const Error& error, const std::string& what) {
    const Advice advice = advice_for(error);
    std::string text = "trainyard: could not " + what + "\n  why:    " + error.what();
    if (!error.reason().empty()) text += " (" + error.reason() + ")";
    if (!advice.remedy.empty()) text += "\n  remedy: " + advice.remedy;
    return {.text = text + "\n", .exit_code = advice.exit_code};
}

}  // namespace ty::cli
