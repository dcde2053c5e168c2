// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/workers/testing/family.h"

#include <algorithm>
#include <array>

#include <unistd.h>

namespace ty::agent {

FamilyPipe::FamilyPipe() : pipe_(sys::make_pipe()) {}

bool FamilyPipe::pull(Deadline by) {
    if (over_) return false;
    if (sys::wait(pipe_.read.get(), sys::Readiness::readable, by) != sys::Waited::ready)
        return false;
    std::array<std::byte, 4096> buffer;
    const std::size_t got = sys::read_some(pipe_.read.get(), buffer);
    text_.append(reinterpret_cast<const char*>(buffer.data()), got);
    over_ = got == 0;
    return !over_;
}

bool FamilyPipe::wait_for_lines(int count, milliseconds patience) {
    const Deadline by = Deadline::in(patience);
    while (std::ranges::count(text_, '\n') < count) {
        if (!pull(by)) return false;
    }
    return true;
}

bool FamilyPipe::all_gone(milliseconds patience) {
    const Deadline by = Deadline::in(patience);
    while (pull(by)) continue;
    return over_;
}

}  // namespace ty::agent
