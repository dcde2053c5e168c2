// SPDX-License-Identifier: Apache-2.0
#include "api/s3/copy_source.h"

#include "base/error.h"
#include "base/text.h"

namespace ty::api::s3 {

CopySource parse_copy_source(std::string_view header) {
    constexpr std::string_view kVersion = "?versionId=";
    std::string_view text = header;
    // A question mark inside a key is percent-encoded.
    if (const auto at = text.find(kVersion); at != std::string_view::npos) {
        const std::string_view version = text.substr(at + kVersion.size());
        if (version != "null")
            throw_error(Code::not_found, "NoSuchVersion",
                        "The specified version does not exist: \"{}\"; buckets have no versions "
                        "here",
                        to_valid_utf8(truncate_utf8(version, 100)));
        text = text.substr(0, at);
    }
    const auto decoded = percent_decode(text);
    std::string_view rest = decoded ? std::string_view(*decoded) : std::string_view();
    if (rest.starts_with('/')) rest.remove_prefix(1);
    const auto slash = rest.find('/');
    if (slash == 0 || slash == std::string_view::npos || slash + 1 == rest.size() ||
        !is_valid_utf8(rest))
        throw_error(Code::invalid, "InvalidArgument",
                    "Copy Source must mention the source bucket and key: sourcebucket/sourcekey, "
                    "not \"{}\"",
                    to_valid_utf8(truncate_utf8(header, 200)));
    return {std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1))};
}

}  // namespace ty::api::s3
