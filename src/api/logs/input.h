// SPDX-License-Identifier: Apache-2.0
// The members of a Logs request, checked as AWS checks them: all violations are collected and
// reported at once by done(). Private to api/logs/; one thread.
#pragma once

#include "api/api.h"
#include "base/json.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::api::logs {

enum class Need { optional, required };

class Input {
public:
    /// Throws invalid ("SerializationException") unless the body is a JSON object.
    explicit Input(const Call& call);
    ~Input();

    /// Group and stream names obey AWS's alphabets.
    std::optional<std::string> group_name(std::string_view member, Need need);
    std::optional<std::string> stream_name(std::string_view member, Need need);
    /// logGroupName, or the name behind logGroupIdentifier (a name or an ARN); one is required.
    std::string group();
    std::optional<std::string> text(std::string_view member, Need need, std::size_t longest);
    std::optional<long long> number(std::string_view member, long long lowest, long long highest);
    std::optional<Instant> time(std::string_view member);
    bool flag(std::string_view member);
    /// filterPattern; may be empty.
    std::string filter_pattern();
    std::vector<std::string> stream_names(std::string_view member);
    std::string choice(std::string_view member, std::vector<std::string> values,
                       std::string_view otherwise);

    struct Event {
        Instant time;
        std::string message;
    };
    std::vector<Event> events(std::string_view member);

    /// Throws invalid ("InvalidParameterException") with every violation found so far.
    void done() const;

private:
    const Json* find(std::string_view member) const;
    void violation(std::string_view member, const Json* value, const std::string& constraint);
    void violation_of(std::string_view path, std::string_view value, const std::string& constraint);
    void check_name(std::string_view path, const std::string& value, bool is_group);

    std::unique_ptr<Json> body_;
    std::vector<std::string> violations_;
};

/// Throws not_found with AWS's text unless the group exists.
void require_group(const Call& call, const std::string& group);

/// "arn:aws:logs:<region>:<account>:log-group:<group>"
std::string group_arn(const Call& call, std::string_view group);

}  // namespace ty::api::logs
