// SPDX-License-Identifier: Apache-2.0
#include "api/logs/page_token.h"

#include "base/error.h"
#include "base/text.h"

namespace ty::api::logs {

std::string page_token(std::string_view listing, std::string_view last) {
    return to_base64(as_bytes(std::string(listing) + ":" + std::string(last)));
}

std::string read_page_token(std::string_view listing, const std::optional<std::string>& token) {
    if (!token) return {};
    const auto text = from_base64(*token);
    const std::string mark = std::string(listing) + ":";
    if (!text || !text->starts_with(mark)) refuse_token();
    return text->substr(mark.size());
}

void refuse_token() {
    throw_error(Code::invalid, "InvalidParameterException", "The specified nextToken is invalid.");
}

}  // namespace ty::api::logs
