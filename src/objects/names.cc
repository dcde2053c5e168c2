// SPDX-License-Identifier: Apache-2.0
#include "objects/names.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace ty::objects {
namespace {

constexpr std::size_t kLongestKey = 1024;

bool is_lower_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool looks_like_ipv4(const std::string& name) {
    const auto parts = split(name, '.');
    return parts.size() == 4 &&
           std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
               return !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
           });
}

}  // namespace

void check_bucket_name(const std::string& name) {
    const bool letters = std::all_of(
        name.begin(), name.end(), [](char c) { return is_lower_alnum(c) || c == '-' || c == '.'; });
    const bool good = name.size() >= 3 && name.size() <= 63 && letters &&
                      is_lower_alnum(name.front()) && is_lower_alnum(name.back()) &&
                      name.find("..") == std::string::npos && !looks_like_ipv4(name);
    if (!good)
        throw_error(Code::invalid, "InvalidBucketName",
                    "the bucket name \"{}\" is not valid: 3 to 63 lower-case letters, digits, dots "
                    "and hyphens, beginning and ending with a letter or digit",
                    to_valid_utf8(truncate_utf8(name, 100)));
}

void check_key(const std::string& key) {
    if (key.empty()) throw_error(Code::invalid, "InvalidArgument", "an object key is never empty");
    if (key.size() > kLongestKey)
        throw_error(Code::invalid, "KeyTooLongError", "the object key has {} bytes; {} are allowed",
                    key.size(), kLongestKey);
    if (!is_valid_utf8(key) || key.find('\0') != std::string::npos)
        throw_error(Code::invalid, "InvalidArgument", "the object key is not UTF-8 text");
}

}  // namespace ty::objects
