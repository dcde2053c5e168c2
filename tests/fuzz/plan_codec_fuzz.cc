// SPDX-License-Identifier: Apache-2.0
// Every reader of the plan codec on hostile bytes: it returns or throws ty::Error, and what it
// accepted reads back equal.
#include "base/error.h"
#include "plan/plan.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

template <typename Read>
void round_trip(std::string_view text, Read read) {
    try {
        const std::string once = ty::plan::to_json(read(text));
        if (ty::plan::to_json(read(once)) != once) std::abort();
    } catch (const ty::Error&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    round_trip(text, ty::plan::plan_from_json);
    round_trip(text, ty::plan::sync_request_from_json);
    round_trip(text, ty::plan::sync_reply_from_json);
    round_trip(text, ty::plan::event_from_json);
    round_trip(text, ty::plan::environment_from_json);
    return 0;
}
