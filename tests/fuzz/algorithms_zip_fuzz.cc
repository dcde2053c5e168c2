// SPDX-License-Identifier: Apache-2.0
// Any bytes as an archive of torch.save: refused, or records that lie within it.
#include "common/base/error.h"
#include "common/files/zip.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const alg::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
    try {
        const alg::ZipReader zip(bytes, "fuzz");
        std::size_t total = 0;
        for (const alg::ZipReader::Record& record : zip.records()) {
            if (zip.find(record.name) != &record) std::abort();
            total += record.data.size();
            try {
                zip.read(record);
            } catch (const alg::Failure&) {
            }
        }
        if (total > size) std::abort();
    } catch (const alg::Failure&) {
    }
    return 0;
}
