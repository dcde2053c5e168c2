// SPDX-License-Identifier: Apache-2.0
#include "api/errors.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::api;

TEST_CASE("every service calls a failure by its own name") {
    struct Row {
        const char* service;
        Code code;
        const char *reason, *name;
        int status;
    };
    const Row rows[] = {
        {"sagemaker", Code::invalid, "", "ValidationException", 400},
        {"sagemaker", Code::invalid, "ValidationException", "ValidationException", 400},
        {"sagemaker", Code::not_found, "", "ValidationException", 400},
        {"sagemaker", Code::conflict, "ResourceInUse", "ResourceInUse", 400},
        {"sagemaker", Code::exhausted, "ResourceLimitExceeded", "ResourceLimitExceeded", 400},
        {"sagemaker", Code::unsupported, "ImageNotMapped", "ValidationException", 400},
        {"sagemaker", Code::invalid, "MalformedJson", "SerializationException", 400},
        {"sagemaker", Code::denied, "MissingAuthenticationToken",
         "MissingAuthenticationTokenException", 400},
        {"sagemaker", Code::denied, "InvalidAccessKeyId", "UnrecognizedClientException", 400},
        {"sagemaker", Code::denied, "SignatureDoesNotMatch", "InvalidSignatureException", 400},
        {"sagemaker", Code::exhausted, "EntityTooLarge", "RequestEntityTooLargeException", 413},
        {"sagemaker", Code::invalid, "UnknownOperation", "UnknownOperationException", 400},
        {"sagemaker", Code::invalid, "SomeInternalWord", "ValidationException", 400},
        {"logs", Code::not_found, "ResourceNotFoundException", "ResourceNotFoundException", 400},
        {"logs", Code::invalid, "", "InvalidParameterException", 400},
        {"sts", Code::denied, "InvalidAccessKeyId", "InvalidClientTokenId", 403},
        {"sts", Code::denied, "RequestTimeTooSkewed", "SignatureDoesNotMatch", 403},
        {"sts", Code::unsupported, "", "NotImplemented", 400},
        {"iam", Code::not_found, "", "NoSuchEntity", 404},
        {"iam", Code::invalid, "MalformedPolicyDocument", "MalformedPolicyDocument", 400},
        {"ec2", Code::denied, "SignatureDoesNotMatch", "AuthFailure", 401},
        {"ec2", Code::unsupported, "", "UnsupportedOperation", 400},
        {"s3", Code::not_found, "NoSuchBucket", "NoSuchBucket", 404},
        {"s3", Code::not_found, "NoSuchKey", "NoSuchKey", 404},
        {"s3", Code::conflict, "BucketNotEmpty", "BucketNotEmpty", 409},
        {"s3", Code::conflict, "PreconditionFailed", "PreconditionFailed", 412},
        {"s3", Code::invalid, "InvalidRange", "InvalidRange", 416},
        {"s3", Code::corrupt, "BadDigest", "BadDigest", 400},
        {"s3", Code::denied, "MissingAuthenticationToken", "AccessDenied", 403},
        {"s3", Code::denied, "AuthorizationHeaderMalformed", "AuthorizationHeaderMalformed", 400},
        {"s3", Code::exhausted, "DiskFull", "InsufficientStorage", 507},
        {"s3", Code::unsupported, "", "NotImplemented", 501},
        {"dynamodb", Code::unsupported, "UnknownOperation", "UnknownOperationException", 400},
    };
    for (const Row& row : rows) {
        CAPTURE(row.service);
        CAPTURE(row.name);
        const Failure failure = failure_of(row.service, Error(row.code, row.reason, "text"));
        CHECK(failure.code == row.name);
        CHECK(failure.status == row.status);
        CHECK(failure.message == "text");
        CHECK(failure.ours == (row.status >= 500));
    }
}

TEST_CASE("failed system calls are ours, whatever errno says") {
    for (const char* service : {"s3", "sagemaker", "sts"}) {
        CAPTURE(service);
        CHECK(failure_of(service, errno_error(ENOENT, "open blob")).status == 500);
        CHECK(failure_of(service, errno_error(EACCES, "open blob")).status == 500);
        CHECK(failure_of(service, errno_error(ENOSPC, "write blob")).status == 507);
        CHECK(failure_of(service, errno_error(EDQUOT, "write blob")).status == 507);
        CHECK(failure_of(service, errno_error(EMFILE, "accept")).status == 503);
        CHECK(failure_of(service, Error(Code::internal, "", "bug")).status == 500);
        CHECK(failure_of(service, Error(Code::corrupt, "", "bad page")).status == 500);
    }
    CHECK(failure_of("s3", Error(Code::internal, "", "bug")).code == "InternalError");
    CHECK(failure_of("logs", Error(Code::internal, "", "bug")).code == "InternalFailure");
}

TEST_CASE("validation messages reach the client without the list of problems behind them") {
    const Error error(Code::invalid, "ValidationException", "1 validation error detected: x",
                      {{"a", "x"}});
    CHECK(failure_of("sagemaker", error).message == "1 validation error detected: x");
}
