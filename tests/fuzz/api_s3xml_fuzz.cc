// SPDX-License-Identifier: Apache-2.0
// Any bytes as one of S3's request documents, a Range header or a copy source: understood, or
// refused as the caller's mistake. The first byte chooses.
#include "api/s3/copy_source.h"
#include "api/s3/headers.h"
#include "api/s3/xml_in.h"

#include <cstdint>

using namespace ty;
using namespace ty::api::s3;

namespace {

void parse_range_within(std::string_view text) {
    constexpr std::uint64_t kSize = 1000;
    const auto range = parse_range(text, kSize);
    if (range) TY_ASSERT(range->length > 0 && range->offset + range->length <= kSize);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    try {
        switch (data[0] % 6) {
            case 0:
                parse_location_constraint(text);
                break;
            case 1:
                TY_ASSERT(!parse_delete(text).entries.empty());
                break;
            case 2:
                TY_ASSERT(!parse_completed_parts(text).empty());
                break;
            case 3:
                TY_ASSERT(parse_tagging(text).size() <= 10);
                break;
            case 4:
                parse_range_within(text);
                break;
            case 5:
                TY_ASSERT(!parse_copy_source(text).key.empty());
                break;
        }
    } catch (const Error& error) {
        TY_ASSERT(error.code() == Code::invalid || error.code() == Code::not_found);
    }
    return 0;
}
