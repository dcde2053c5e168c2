// SPDX-License-Identifier: Apache-2.0
// Operation name -> handler, and what the compatibility page says of each.
#include "api/coverage.h"
#include "api/sagemaker/service.h"

#include <algorithm>
#include <array>

namespace ty::api {

namespace sagemaker {

namespace {

constexpr std::array kRows = {
    Row{"AddTags", add_tags, "Training jobs only."},
    Row{"CreateTrainingJob", create_training_job,
        "Instances are sandboxes of this machine, and the image names an environment of it. See "
        "the "
        "fields below."},
    Row{"DeleteTags", delete_tags, "Training jobs only."},
    Row{"DeleteTrainingJob", delete_training_job, "Logs and artefacts stay."},
    Row{"DescribeTrainingJob", describe_training_job,
        "The extra member TrainyardEnvironment says what the image stood for."},
    Row{"ListTags", list_tags, "Training jobs only; all tags in one page."},
    Row{"ListTrainingJobs", list_training_jobs,
        "There are no warm pools and no training plans to filter by."},
    Row{"Search", search, "Training jobs only."},
    Row{"StopTrainingJob", stop_training_job, ""},
    Row{"UpdateTrainingJob", update_training_job,
        "Recorded and described; nothing to apply it to."},
};
static_assert(std::ranges::is_sorted(kRows, {}, &Row::operation));

}  // namespace

std::span<const Row> rows() {
    return kRows;
}

}  // namespace sagemaker

std::vector<OperationCoverage> sagemaker_coverage() {
    std::vector<OperationCoverage> covered;
    for (const sagemaker::Row& row : sagemaker::rows())
        covered.push_back({"sagemaker", std::string(row.operation),
                           row.note.empty() ? "full" : "partial", std::string(row.note)});
    return covered;
}

}  // namespace ty::api
