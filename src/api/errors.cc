// SPDX-License-Identifier: Apache-2.0
// The tables behind failure_of. A row matches (code, reason); an empty reason matches any. The
// first match wins, so special rows stand before general ones.
//
// 507 for a full disk on purpose: botocore and the other SDKs repeat 500, 502, 503 and 504 up to
// five times, and a full disk does not become free within a second.
#include "api/errors.h"

#include <algorithm>
#include <array>
#include <span>

namespace ty::api {

namespace {

struct Row {
    Code code;
    std::string_view reason;
    std::string_view name;
    int status;
};

enum class Family { json, query, s3 };

Family family_of(std::string_view service) {
    if (service == "s3") return Family::s3;
    if (service == "sts" || service == "iam" || service == "ec2") return Family::query;
    return Family::json;
}

// ---- AWS JSON services
// ----------------------------------------------------------------------------

constexpr std::array kJson{
    Row{Code::denied, "MissingAuthenticationToken", "MissingAuthenticationTokenException", 400},
    Row{Code::denied, "InvalidAccessKeyId", "UnrecognizedClientException", 400},
    Row{Code::denied, "InvalidToken", "UnrecognizedClientException", 400},
    Row{Code::denied, "SignatureDoesNotMatch", "InvalidSignatureException", 400},
    Row{Code::denied, "RequestTimeTooSkewed", "InvalidSignatureException", 400},
    Row{Code::denied, "ExpiredToken", "ExpiredTokenException", 400},
    Row{Code::denied, "AuthorizationHeaderMalformed", "IncompleteSignatureException", 400},
    Row{Code::denied, "AuthorizationQueryParametersError", "IncompleteSignatureException", 400},
    Row{Code::invalid, "InvalidRequest", "IncompleteSignatureException", 400},
    Row{Code::denied, "", "AccessDeniedException", 400},
    Row{Code::exhausted, "EntityTooLarge", "RequestEntityTooLargeException", 413},
    Row{Code::exhausted, "DiskFull", "InsufficientStorageException", 507},
    Row{Code::exhausted, "", "ServiceUnavailableException", 503},
    Row{Code::invalid, "MalformedJson", "SerializationException", 400},
    Row{Code::invalid, "UnknownOperation", "UnknownOperationException", 400},
    Row{Code::unsupported, "UnknownOperation", "UnknownOperationException", 400},
    Row{Code::unsupported, "ImageNotMapped", "ValidationException", 400},
    Row{Code::unsupported, "", "UnsupportedOperationException", 400},
    Row{Code::timed_out, "", "RequestTimeoutException", 408},
    Row{Code::unavailable, "", "ServiceUnavailableException", 503},
    Row{Code::cancelled, "", "ServiceUnavailableException", 503},
};
constexpr std::array kSageMaker{
    Row{Code::conflict, "ResourceInUse", "ResourceInUse", 400},
    Row{Code::conflict, "", "ConflictException", 400},
    // SageMaker answers ValidationException where its model declares ResourceNotFound.
    Row{Code::not_found, "", "ValidationException", 400},
};
constexpr std::array kLogs{
    Row{Code::not_found, "", "ResourceNotFoundException", 400},
    Row{Code::conflict, "", "ResourceAlreadyExistsException", 400},
    Row{Code::invalid, "", "InvalidParameterException", 400},
};
/// Trainyard's own calls, where the HTTP status says what happened too.
constexpr std::array kControl{
    Row{Code::denied, "", "AccessDeniedException", 403},
    Row{Code::not_found, "", "ResourceNotFoundException", 404},
    Row{Code::conflict, "ResourceInUse", "ResourceInUse", 409},
    Row{Code::conflict, "", "ConflictException", 409},
};
constexpr std::array kEcr{
    Row{Code::not_found, "", "RepositoryNotFoundException", 400},
    Row{Code::conflict, "", "RepositoryAlreadyExistsException", 400},
    Row{Code::invalid, "", "InvalidParameterException", 400},
};
constexpr std::array kMonitoring{
    Row{Code::not_found, "", "ResourceNotFoundException", 404},
    Row{Code::invalid, "", "InvalidParameterValue", 400},
};
constexpr std::array kJsonLast{
    Row{Code::invalid, "", "ValidationException", 400},
    Row{Code::not_found, "", "ResourceNotFoundException", 400},
    Row{Code::conflict, "", "ConflictException", 400},
};
/// Reasons that are AWS error codes already and do not end in "Exception".
constexpr std::array<std::string_view, 9> kJsonNames{
    "ResourceInUse",         "ResourceNotFound",
    "ResourceLimitExceeded", "InvalidParameterValue",
    "MissingParameter",      "MissingRequiredParameter",
    "InvalidFormat",         "InvalidParameterCombination",
    "InvalidNextToken"};

// ---- query services
// -------------------------------------------------------------------------------

constexpr std::array kEc2{
    Row{Code::denied, "InvalidAccessKeyId", "AuthFailure", 401},
    Row{Code::denied, "InvalidToken", "AuthFailure", 401},
    Row{Code::denied, "SignatureDoesNotMatch", "AuthFailure", 401},
    Row{Code::denied, "RequestTimeTooSkewed", "RequestExpired", 400},
    Row{Code::denied, "ExpiredToken", "RequestExpired", 400},
    Row{Code::denied, "", "UnauthorizedOperation", 403},
    Row{Code::unsupported, "", "UnsupportedOperation", 400},
    Row{Code::invalid, "", "InvalidParameterValue", 400},
};
constexpr std::array kIam{
    Row{Code::not_found, "", "NoSuchEntity", 404},
    Row{Code::conflict, "", "EntityAlreadyExists", 409},
};
constexpr std::array kQuery{
    Row{Code::denied, "MissingAuthenticationToken", "MissingAuthenticationToken", 403},
    Row{Code::denied, "InvalidAccessKeyId", "InvalidClientTokenId", 403},
    Row{Code::denied, "InvalidToken", "InvalidClientTokenId", 403},
    Row{Code::denied, "SignatureDoesNotMatch", "SignatureDoesNotMatch", 403},
    Row{Code::denied, "RequestTimeTooSkewed", "SignatureDoesNotMatch", 403},
    Row{Code::denied, "ExpiredToken", "ExpiredToken", 403},
    Row{Code::denied, "AuthorizationHeaderMalformed", "IncompleteSignature", 400},
    Row{Code::denied, "AuthorizationQueryParametersError", "IncompleteSignature", 400},
    Row{Code::invalid, "InvalidRequest", "IncompleteSignature", 400},
    Row{Code::denied, "", "AccessDenied", 403},
    Row{Code::invalid, "UnknownOperation", "InvalidAction", 400},
    Row{Code::exhausted, "EntityTooLarge", "RequestEntityTooLarge", 413},
    Row{Code::exhausted, "DiskFull", "InsufficientStorage", 507},
    Row{Code::exhausted, "", "ServiceUnavailable", 503},
    Row{Code::unsupported, "", "NotImplemented", 400},
    Row{Code::timed_out, "", "RequestTimeout", 408},
    Row{Code::unavailable, "", "ServiceUnavailable", 503},
    Row{Code::cancelled, "", "ServiceUnavailable", 503},
    Row{Code::invalid, "", "ValidationError", 400},
    Row{Code::not_found, "", "NotFound", 404},
    Row{Code::conflict, "", "Conflict", 409},
};

// ---- S3
// -------------------------------------------------------------------------------------------

constexpr std::array kS3{
    Row{Code::denied, "MissingAuthenticationToken", "AccessDenied", 403},
    Row{Code::denied, "AuthorizationHeaderMalformed", "AuthorizationHeaderMalformed", 400},
    Row{Code::denied, "AuthorizationQueryParametersError", "AuthorizationQueryParametersError",
        400},
    Row{Code::denied, "InvalidToken", "InvalidToken", 400},
    Row{Code::denied, "ExpiredToken", "ExpiredToken", 400},
    Row{Code::conflict, "PreconditionFailed", "PreconditionFailed", 412},
    Row{Code::invalid, "PreconditionFailed", "PreconditionFailed", 412},
    Row{Code::invalid, "InvalidRange", "InvalidRange", 416},
    Row{Code::invalid, "MissingContentLength", "MissingContentLength", 411},
    Row{Code::invalid, "MethodNotAllowed", "MethodNotAllowed", 405},
    Row{Code::unsupported, "MethodNotAllowed", "MethodNotAllowed", 405},
    Row{Code::exhausted, "EntityTooLarge", "EntityTooLarge", 400},
    Row{Code::exhausted, "DiskFull", "InsufficientStorage", 507},
    Row{Code::exhausted, "", "SlowDown", 503},
    Row{Code::unsupported, "", "NotImplemented", 501},
    Row{Code::timed_out, "", "RequestTimeout", 400},
    Row{Code::unavailable, "", "ServiceUnavailable", 503},
    Row{Code::cancelled, "", "ServiceUnavailable", 503},
};
/// Codes without a reason, after reasons were passed through.
constexpr std::array kS3Last{
    Row{Code::invalid, "", "InvalidRequest", 400},
    Row{Code::not_found, "", "NoSuchKey", 404},
    Row{Code::conflict, "", "OperationAborted", 409},
    Row{Code::denied, "", "AccessDenied", 403},
};

const Row* find_row(std::span<const Row> rows, const Error& error) {
    const auto found = std::ranges::find_if(rows, [&](const Row& row) {
        return row.code == error.code() && (row.reason.empty() || row.reason == error.reason());
    });
    return found != rows.end() ? &*found : nullptr;
}

/// Only rows that name the reason.
const Row* find_exact(std::span<const Row> rows, const Error& error) {
    const auto found = std::ranges::find_if(rows, [&](const Row& row) {
        return row.code == error.code() && !row.reason.empty() && row.reason == error.reason();
    });
    return found != rows.end() ? &*found : nullptr;
}

int usual_status(Family family, Code code) {
    if (family == Family::json) return 400;
    switch (code) {
        case Code::not_found:
            return 404;
        case Code::conflict:
            return 409;
        case Code::denied:
            return 403;
        case Code::invalid:
        case Code::exhausted:
        case Code::unavailable:
        case Code::timed_out:
        case Code::cancelled:
        case Code::corrupt:
        case Code::unsupported:
        case Code::internal:
            return 400;
    }
    return 400;
}

bool is_wire_name(Family family, const std::string& reason) {
    if (reason.empty()) return false;
    if (family != Family::json) return reason[0] >= 'A' && reason[0] <= 'Z';
    return reason.ends_with("Exception") ||
           std::ranges::find(kJsonNames, reason) != kJsonNames.end();
}

/// The reason itself is what AWS calls it.
bool passes_through(Family family, const Error& error) {
    switch (error.code()) {
        case Code::invalid:
        case Code::not_found:
        case Code::conflict:
        case Code::denied:
        case Code::unsupported:
            return is_wire_name(family, error.reason());
        case Code::corrupt:
            return family == Family::s3 && is_wire_name(family, error.reason());
        case Code::exhausted:
            return error.reason() == "ResourceLimitExceeded";
        case Code::unavailable:
        case Code::timed_out:
        case Code::cancelled:
        case Code::internal:
            return false;
    }
    return false;
}

std::span<const Row> service_rows(std::string_view service) {
    if (service == "sagemaker") return kSageMaker;
    if (service == "logs") return kLogs;
    if (service == "ecr") return kEcr;
    if (service == "trainyard") return kControl;
    if (service == "monitoring") return kMonitoring;
    if (service == "ec2") return kEc2;
    if (service == "iam") return kIam;
    return {};
}

struct Tables {
    std::span<const Row> general, last;
};
Tables tables_of(Family family) {
    switch (family) {
        case Family::json:
            return {kJson, kJsonLast};
        case Family::query:
            return {kQuery, {}};
        case Family::s3:
            return {kS3, kS3Last};
    }
    return {};
}

/// A failed system call of ours is not the caller's mistake, whatever its errno says; a full disk
/// is named.
Error adjusted(const Error& error) {
    if (error.os_error() == 0) return error;
    const bool disk = error.os_error() == ENOSPC || error.os_error() == EDQUOT;
    if (disk)
        return Error(Code::exhausted, "DiskFull",
                     std::string(error.what()) + "; free disk space under the state folder");
    if (error.code() == Code::exhausted || error.code() == Code::unavailable ||
        error.code() == Code::timed_out)
        return error;
    return Error(Code::internal, "", error.what());
}

}  // namespace

Failure failure_of(std::string_view service, const Error& original) {
    const Error error = adjusted(original);
    const Family family = family_of(service);
    const Tables tables = tables_of(family);
    const auto as_failure = [&](std::string_view name, int status) {
        return Failure{std::string(name), status, error.message(), status >= 500};
    };
    if (const Row* row = find_exact(service_rows(service), error))
        return as_failure(row->name, row->status);
    if (const Row* row = find_exact(tables.general, error))
        return as_failure(row->name, row->status);
    if (passes_through(family, error))
        return as_failure(error.reason(), usual_status(family, error.code()));
    for (const auto rows : {service_rows(service), tables.general, tables.last})
        if (const Row* row = find_row(rows, error)) return as_failure(row->name, row->status);
    return {family == Family::s3 ? "InternalError" : "InternalFailure", 500, error.what(), true};
}

}  // namespace ty::api
