// SPDX-License-Identifier: Apache-2.0
// Foreign source archives: whatever is in them, the reader ends, throws nothing but Error, and
// writes nothing outside its folder.
#include "agent/transfer/unpack.h"
#include "base/error.h"
#include "sys/sys.h"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const ty::sys::TempDir dir("agent-targz-fuzz");
    const ty::sys::fs::path into = dir.path() / "in/code";
    ty::sys::fs::create_directories(into);
    ty::agent::UnpackLimits limits;
    limits.total = ty::Bytes(4u << 20);
    limits.entries = 200;
    try {
        (void)ty::agent::unpack(std::as_bytes(std::span(data, size)), "archive", into, limits);
    } catch (const ty::Error&) {
    }
    for (const auto& entry : ty::sys::fs::directory_iterator(dir.path()))
        TY_ASSERT(entry.path() == dir.path() / "in");
    for (const auto& entry : ty::sys::fs::directory_iterator(dir.path() / "in"))
        TY_ASSERT(entry.path() == into);
    return 0;
}
