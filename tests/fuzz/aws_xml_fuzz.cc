// SPDX-License-Identifier: Apache-2.0
// Answers of an S3 server as our client reads them.
#include "aws/xml_scan.h"
#include "base/error.h"

#include <cstdint>

using namespace ty;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view document(reinterpret_cast<const char*>(data), size);
    try {
        aws::parse_list_page(document);
    } catch (const Error&) {
    }
    aws::find_fault(document);
    aws::find_element(document, "UploadId");
    return 0;
}
