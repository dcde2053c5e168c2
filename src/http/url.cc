// SPDX-License-Identifier: Apache-2.0
// "http://host:port/prefix".
#include "base/error.h"
#include "base/text.h"
#include "http/http.h"
#include "http/parse.h"

#include <algorithm>

namespace ty::http {

Url parse_url(std::string_view text) {
    const auto refuse = [text](const char* why) {
        throw_error(Code::invalid, "InvalidUrl",
                    "\"{}\" is not a URL like http://host:port/path: {}", text, why);
    };
    Url url;
    const auto scheme_end = text.find("://");
    if (scheme_end == std::string_view::npos) refuse("no scheme");
    url.scheme = to_lower(text.substr(0, scheme_end));
    if (url.scheme != "http" && url.scheme != "https")
        refuse("the scheme is neither http nor https");
    url.port = url.scheme == "https" ? 443 : 80;
    std::string_view rest = text.substr(scheme_end + 3);
    const auto authority_end = std::min(rest.find('/'), rest.size());
    const std::string_view authority = rest.substr(0, authority_end);
    std::string_view path = rest.substr(authority_end);
    if (authority.find('@') != std::string_view::npos) refuse("user names are not taken");
    if (path.find_first_of("?# \r\n\t") != std::string_view::npos ||
        authority.find_first_of("?#") != std::string_view::npos) {
        refuse("a query, fragment or blank");
    }
    const bool has_port =
        authority.rfind(':') != std::string_view::npos && !authority.ends_with(']');
    const auto parsed =
        parse_host_port(has_port ? std::string(authority) : format("{}:{}", authority, url.port));
    if (!parsed) refuse("the host or port is malformed");
    url.host = parsed->host;
    url.port = parsed->port;
    while (path.ends_with('/')) path.remove_suffix(1);
    url.path = path;
    return url;
}

}  // namespace ty::http
