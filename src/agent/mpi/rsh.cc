// SPDX-License-Identifier: Apache-2.0
// The caller's side: what Open MPI starts where it would start ssh.
#include "agent/mpi/mpi.h"
#include "agent/mpi/rsh_link.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr int kNoWay = 255;  ///< as ssh
constexpr milliseconds kConnect = 30s;

int run_on(const std::string& host, const std::string& line) {
    RshLink link = rsh_call(rsh_address(host), {"run", line}, Deadline::in(kConnect));
    while (const auto frame = link.receive(Deadline::never())) {
        const std::string_view rest = std::string_view(*frame).substr(frame->empty() ? 0 : 1);
        if (frame->starts_with('o')) sys::write_all(1, rest);
        if (frame->starts_with('e')) sys::write_all(2, rest);
        if (frame->starts_with('x')) return static_cast<int>(parse_int(rest).value_or(kNoWay));
    }
    throw_error(Code::unavailable, "", "host {} went away before the command had ended", host);
}

}  // namespace

int rsh_main(const std::vector<std::string>& words) {
    // ssh's "-x" and the like; none that takes a value is ever given to an agent that is not ssh.
    const auto host =
        std::ranges::find_if(words, [](const std::string& word) { return !word.starts_with('-'); });
    if (host == words.end() || host + 1 == words.end()) {
        sys::write_all(2, "usage: trainyard-agent rsh <host> command...\n");
        return kNoWay;
    }
    const Result<int> code =
        capture([&] { return run_on(*host, join(std::vector(host + 1, words.end()), " ")); });
    if (code.ok()) return Result<int>(code).value();
    sys::write_all(2, format("trainyard-agent rsh: {}\n", code.error().what()));
    return kNoWay;
}

}  // namespace ty::agent
