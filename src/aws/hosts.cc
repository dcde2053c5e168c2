// SPDX-License-Identifier: Apache-2.0
// AWS's names for places: partitions, DNS suffixes, service host names, s3:// URIs.
#include "aws/aws.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::aws {

namespace {

struct Partition {
    std::string_view prefix, name, suffix;
};
constexpr std::array kPartitions{
    Partition{"cn-", "aws-cn", "amazonaws.com.cn"},
    Partition{"us-gov-", "aws-us-gov", "amazonaws.com"},
    Partition{"us-iso-", "aws-iso", "c2s.ic.gov"},
    Partition{"us-isob-", "aws-iso-b", "sc2s.sgov.gov"},
    Partition{"eusc-", "aws-eusc", "amazonaws.eu"},
};
constexpr Partition kCommercial{"", "aws", "amazonaws.com"};

const Partition& find_partition(std::string_view region) {
    const auto found = std::ranges::find_if(kPartitions, [region](const Partition& partition) {
        return region.starts_with(partition.prefix);
    });
    return found != kPartitions.end() ? *found : kCommercial;
}

/// Longest first: ".amazonaws.com.cn" does not end in ".amazonaws.com", but order costs nothing.
constexpr std::array<std::string_view, 9> kZones{"amazonaws.com.cn", "api.amazonwebservices.com.cn",
                                                 "amazonaws.com",    "amazonaws.eu",
                                                 "api.aws",          "on.aws",
                                                 "sagemaker.aws",    "c2s.ic.gov",
                                                 "sc2s.sgov.gov"};

std::string clean_host(std::string_view host) {
    std::string out = to_lower(trim(host));
    if (const auto colon = out.rfind(':');
        colon != std::string::npos && out.find(']') == std::string::npos)
        out.resize(colon);
    while (out.ends_with('.')) out.pop_back();
    return out;
}

/// The labels before the AWS zone, "" when the host is the zone itself; nullopt for other zones.
std::optional<std::string_view> before_zone(std::string_view host) {
    for (const std::string_view zone : kZones) {
        if (host == zone) return std::string_view{};
        if (host.size() > zone.size() && host.ends_with(zone) &&
            host[host.size() - zone.size() - 1] == '.')
            return host.substr(0, host.size() - zone.size() - 1);
    }
    return std::nullopt;
}

/// "us-east-1", "cn-northwest-1", "us-gov-west-1", "ap-southeast-2": words, dashes, a number at the
/// end.
bool looks_like_region(std::string_view label) {
    const auto last = label.rfind('-');
    if (last == std::string_view::npos || last + 1 == label.size() || label.find('-') == last)
        return false;
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return std::ranges::all_of(label.substr(0, last), is_letter) &&
           std::ranges::all_of(label.substr(last + 1), is_digit);
}

bool is_s3_label(std::string_view label) {
    return label == "s3" || label == "s3-accelerate" || label == "s3-external-1" ||
           label == "s3-fips";
}

HostParts parse_s3_labels(const std::vector<std::string>& labels, std::size_t at) {
    HostParts out{.service = "s3", .region = {}, .bucket = {}};
    for (std::size_t i = at + 1; i < labels.size(); ++i)
        if (looks_like_region(labels[i])) out.region = labels[i];
    if (labels[at].starts_with("s3-") && looks_like_region(labels[at].substr(3)))
        out.region = labels[at].substr(3);
    out.bucket = join(std::span(labels.data(), at), ".");
    return out;
}

}  // namespace

std::string partition_of(std::string_view region) {
    return std::string(find_partition(region).name);
}
std::string dns_suffix_of(std::string_view region) {
    return std::string(find_partition(region).suffix);
}

bool is_aws_host(std::string_view host) {
    return before_zone(clean_host(host)).has_value();
}

HostParts parse_aws_host(std::string_view host) {
    const std::string name = clean_host(host);
    const auto front = before_zone(name);
    if (!front || front->empty()) return {};
    std::vector<std::string> labels = split(*front, '.');
    // The rightmost s3 label is the service: a bucket may itself be called "s3.data".
    for (std::size_t i = labels.size(); i-- > 0;)
        if (is_s3_label(labels[i]) || (labels[i].starts_with("s3-") &&
                                       looks_like_region(std::string_view(labels[i]).substr(3))))
            return parse_s3_labels(labels, i);
    HostParts out;
    if (labels.size() > 1 && looks_like_region(labels.back())) {
        out.region = labels.back();
        labels.pop_back();
    } else if (labels.size() > 1 && looks_like_region(labels.front())) {
        out.region = labels.front();  // runtime.lex style: region first
        labels.erase(labels.begin());
    }
    // api.sagemaker, api.ecr, runtime.sagemaker: the service is the last label.
    out.service = labels.back();
    if (out.service.ends_with("-fips")) out.service.resize(out.service.size() - 5);
    return out;
}

S3Uri parse_s3_uri(std::string_view text) {
    constexpr std::string_view kScheme = "s3://";
    if (text.size() < kScheme.size() ||
        !equals_ignoring_case(text.substr(0, kScheme.size()), kScheme))
        throw_error(Code::invalid, "InvalidS3Uri", "\"{}\" is not an S3 URI; write s3://bucket/key",
                    to_valid_utf8(text));
    const std::string_view rest = text.substr(kScheme.size());
    const auto slash = std::min(rest.find('/'), rest.size());
    if (slash == 0)
        throw_error(Code::invalid, "InvalidS3Uri", "\"{}\" names no bucket; write s3://bucket/key",
                    to_valid_utf8(text));
    return {std::string(rest.substr(0, slash)),
            slash < rest.size() ? std::string(rest.substr(slash + 1)) : ""};
}

}  // namespace ty::aws
