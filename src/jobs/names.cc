// SPDX-License-Identifier: Apache-2.0
// The words for statuses, as SageMaker spells them.
#include "jobs/names.h"

#include <array>

namespace ty::jobs {

namespace {

constexpr std::array<std::string_view, 6> kStatus = {"InProgress", "Completed", "Failed",
                                                     "Stopping",   "Stopped",   "Deleting"};
constexpr std::array<std::string_view, 14> kSecondary = {"Starting",
                                                         "Downloading",
                                                         "Training",
                                                         "Uploading",
                                                         "Stopping",
                                                         "Stopped",
                                                         "MaxRuntimeExceeded",
                                                         "Completed",
                                                         "Failed",
                                                         "Interrupted",
                                                         "MaxWaitTimeExceeded",
                                                         "Updating",
                                                         "Restarting",
                                                         "Pending"};
static_assert(static_cast<std::size_t>(Status::deleting) + 1 == kStatus.size());
static_assert(static_cast<std::size_t>(Secondary::pending) + 1 == kSecondary.size());

}  // namespace

std::string_view to_string(Status status) {
    return kStatus[static_cast<std::size_t>(status)];
}
std::string_view to_string(Secondary secondary) {
    return kSecondary[static_cast<std::size_t>(secondary)];
}

std::optional<Status> parse_status(std::string_view text) {
    for (std::size_t i = 0; i < kStatus.size(); ++i)
        if (kStatus[i] == text) return static_cast<Status>(i);
    return std::nullopt;
}

std::optional<Secondary> parse_secondary(std::string_view text) {
    for (std::size_t i = 0; i < kSecondary.size(); ++i)
        if (kSecondary[i] == text) return static_cast<Secondary>(i);
    return std::nullopt;
}

bool is_terminal(Status status) {
    switch (status) {
        case Status::completed:
        case Status::failed:
        case Status::stopped:
            return true;
        case Status::in_progress:
        case Status::stopping:
        case Status::deleting:
            return false;
    }
    return false;
}

}  // namespace ty::jobs
