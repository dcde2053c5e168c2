// SPDX-License-Identifier: Apache-2.0
// ECR, as far as scripts that build an image before training need it to answer.
#include "api/ecr/ops.h"

#include <array>

namespace ty::api {

namespace {

constexpr std::array kRows{
    JsonRow{"GetAuthorizationToken", ecr::get_authorization_token, "accepted",
            "A token that opens nothing: there is no registry."},
    JsonRow{"DescribeRepositories", ecr::describe_repositories, "partial",
            "Every repository asked for by name exists."},
    JsonRow{"CreateRepository", ecr::create_repository, "accepted",
            "Acknowledged with the URI to use as image name."},
    JsonRow{"DescribeImages", ecr::describe_images, "partial", "No image is ever found."},
    JsonRow{"BatchGetImage", ecr::batch_get_image, "partial", "No image is ever found."},
};

}  // namespace

http::Response serve_ecr(Call& call) {
    return serve_json_table(call, "ecr", kRows);
}

std::vector<OperationCoverage> ecr_coverage() {
    return coverage_of("ecr", std::span<const JsonRow>(kRows));
}

}  // namespace ty::api
