// SPDX-License-Identifier: Apache-2.0
// What every service answers, as data: the compatibility page is generated from these lists, and a
// test holds them against the dispatch tables. Each service folder defines its own function.
#pragma once

#include <string>
#include <vector>

namespace ty::api {

struct OperationCoverage {
    std::string service;    ///< "sts"
    std::string operation;  ///< "GetCallerIdentity"
    std::string state;  ///< "full" | "partial" | "accepted" (answered, without effect) | "refused"
                        ///< (typed error)
    std::string note;   ///< one sentence; what is different here. May be empty.
};

std::vector<OperationCoverage> sagemaker_coverage();
std::vector<OperationCoverage> s3_coverage();
std::vector<OperationCoverage> logs_coverage();
std::vector<OperationCoverage> cloudwatch_coverage();
std::vector<OperationCoverage> sts_coverage();
std::vector<OperationCoverage> iam_coverage();
std::vector<OperationCoverage> ecr_coverage();
std::vector<OperationCoverage> ec2_coverage();

}  // namespace ty::api
