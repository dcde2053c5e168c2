// SPDX-License-Identifier: Apache-2.0
// Authorization header and presigned query as a stranger sends them. Input: method, path, query and
// header lines, one per line. Nothing may be accepted: the key is not in the corpus.
#include "aws/aws.h"
#include "aws/signature.h"
#include "base/text.h"

#include <cstdint>
#include <cstdlib>

using namespace ty;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::vector<std::string> lines = split({reinterpret_cast<const char*>(data), size}, '\n');
    http::Request request;
    request.method = lines[0];
    if (lines.size() > 1) request.path = lines[1];
    if (lines.size() > 2) request.query = lines[2];
    for (std::size_t i = 3; i < lines.size(); ++i) {
        const auto colon = lines[i].find(':');
        if (colon != std::string::npos)
            request.headers.add(lines[i].substr(0, colon), lines[i].substr(colon + 1));
    }
    const auto keys = [](const std::string& access_key) -> std::optional<aws::Credentials> {
        return aws::Credentials{access_key, "4f1b-not-in-any-corpus-9d2c", ""};
    };
    const Instant now = from_epoch_millis(1'440'938'160'000);
    aws::find_scope(request);
    for (const char* hash :
         {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}) {
        try {
            aws::verify(request, hash, keys, now);
            std::abort();  // a forged signature
        } catch (const Error&) {
        }
    }
    return 0;
}
