// SPDX-License-Identifier: Apache-2.0
// The chunked decoder. The first byte says how the rest is cut into pieces; whatever the cut, the
// same bytes must come out and the same verdict be reached.
#include "base/error.h"
#include "http/chunked.h"

#include <cstdint>
#include <string>
#include <string_view>

using namespace ty;
using namespace ty::http;

namespace {

struct Verdict {
    std::string body;
    bool done = false;
    bool refused = false;
    bool operator==(const Verdict&) const = default;
};

Verdict decode(std::string_view coded, std::size_t in_step, std::size_t out_step) {
    Verdict verdict;
    ChunkDecoder decoder;
    std::string out(out_step, '\0');
    try {
        while (!coded.empty() && !decoder.done()) {
            const std::string_view piece = coded.substr(0, in_step);
            const ChunkDecoder::Step step =
                decoder.decode(std::as_bytes(std::span(piece.data(), piece.size())),
                               std::as_writable_bytes(std::span(out)));
            TY_ASSERT(step.consumed <= piece.size() && step.produced <= out.size());
            TY_ASSERT(step.consumed > 0);
            verdict.body.append(out, 0, step.produced);
            coded.remove_prefix(step.consumed);
        }
        verdict.done = decoder.done();
    } catch (const Error& error) {
        TY_ASSERT(error.code() == Code::invalid);
        verdict.refused = true;
        verdict.body.clear();  // how much came out before the fault depends on the cut
    }
    return verdict;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view coded(reinterpret_cast<const char*>(data) + 1, size - 1);
    const std::size_t in_step = 1 + data[0] % 16;
    const std::size_t out_step = 1 + data[0] / 16;
    const Verdict whole = decode(coded, coded.size() + 1, coded.size() + 1);
    TY_ASSERT(whole.body.size() <= coded.size());
    TY_ASSERT(decode(coded, in_step, out_step) == whole);
    return 0;
}
