// SPDX-License-Identifier: Apache-2.0
// Error -> what goes on the wire: the AWS error code, HTTP status and text, per service. Tables
// only; how they look in JSON or XML is render.h's business.
#pragma once

#include "base/error.h"

#include <string>
#include <string_view>

namespace ty::api {

/// A failure in AWS's words.
struct Failure {
    std::string code;     ///< "ValidationException"
    int status = 400;     ///< HTTP
    std::string message;  ///< for people; a 5xx of ours says only where to look
    bool ours = false;    ///< our fault (5xx): was logged as an error, clients may repeat it
};

/// `service` is the face's name: "sagemaker", "logs", "ecr", "monitoring", "sts", "iam", "ec2",
/// "s3". A reason that the service knows as an error code is passed through; others map by Code.
/// Failed system calls and Code::internal become the service's internal error, never a 4xx.
Failure failure_of(std::string_view service, const Error& error);

}  // namespace ty::api
