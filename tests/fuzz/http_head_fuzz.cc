// SPDX-License-Identifier: Apache-2.0
// Request and response heads, targets and URLs. Beyond not crashing: a head that is accepted must
// be bounded by the limits given and say one thing only about where its body ends.
#include "base/error.h"
#include "http/parse.h"

#include <cstdint>
#include <iterator>

using namespace ty;
using namespace ty::http;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    constexpr std::size_t kHeaders = 20;
    const auto end = find_head_end(text);
    // Searching in two steps must find the same end.
    if (end && *end > 1)
        TY_ASSERT(!find_head_end(text.substr(0, *end - 1)) && find_head_end(text, *end - 1) == end);
    const std::string_view head = text.substr(0, end.value_or(size));

    RequestHead request;
    if (!parse_request_head(head, kHeaders, request)) {
        TY_ASSERT(!request.method.empty());
        TY_ASSERT(request.method == "CONNECT" || !request.path.empty());
        TY_ASSERT(std::distance(request.headers.begin(), request.headers.end()) <=
                  static_cast<int>(kHeaders) + 1);
        TY_ASSERT(!(request.headers.contains("Content-Length") &&
                    request.headers.contains("Transfer-Encoding")));
        for (const auto& [name, value] : request.headers) {
            TY_ASSERT(!name.empty() && name.find_first_of(" \t\r\n:") == std::string::npos);
            TY_ASSERT(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
        }
        parse_host_port(request.authority);
    }
    ResponseHead response;
    if (!parse_response_head(head, kHeaders, response)) {
        TY_ASSERT(response.status >= 100 && response.status <= 599);
    }
    parse_host_port(text);
    try {
        const Url url = parse_url(text);
        TY_ASSERT(!url.host.empty() && url.port != 0);
    } catch (const Error& error) {
        TY_ASSERT(error.code() == Code::invalid);
    }
    return 0;
}
