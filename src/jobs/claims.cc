// SPDX-License-Identifier: Apache-2.0
#include "jobs/claims.h"

#include "base/error.h"
#include "base/text.h"

namespace ty::jobs {

namespace {

bool contains(const std::string& outer, const std::string& inner) {
    return inner == outer || inner.starts_with(outer + "/");
}

}  // namespace

CheckpointClaims::Claim CheckpointClaims::claim_of(const Job& job) {
    const plan::Checkpoint& checkpoint = *job.spec.node.checkpoint;
    std::string uri = checkpoint.uri;
    while (uri.ends_with('/')) uri.pop_back();
    return {checkpoint.endpoint, std::move(uri), job.spec.region, job.spec.name};
}

void CheckpointClaims::claim(const Job& job) {
    if (!job.spec.node.checkpoint) return;
    Claim wanted = claim_of(job);
    claims_.with([&](std::map<std::string, Claim>& claims) {
        for (const auto& [id, held] : claims) {
            const bool same_job =
                held.region == wanted.region && to_lower(held.name) == to_lower(wanted.name);
            const bool overlaps =
                held.endpoint == wanted.endpoint &&
                (contains(held.uri, wanted.uri) || contains(wanted.uri, held.uri));
            if (same_job || !overlaps) continue;
            throw_error(Code::invalid, "ValidationException",
                        "CheckpointConfig.S3Uri {} overlaps with {} of training job \"{}\", which "
                        "is not over; give every job a prefix of its own, or wait for the end of "
                        "that job",
                        wanted.uri, held.uri, held.name);
        }
        claims.insert_or_assign(job.id.str(), std::move(wanted));
    });
}

void CheckpointClaims::adopt(const Job& job) {
    if (!job.spec.node.checkpoint) return;
    claims_.with([&](std::map<std::string, Claim>& claims) {
        claims.insert_or_assign(job.id.str(), claim_of(job));
    });
}

void CheckpointClaims::release(const JobId& job) {
    claims_.with([&](std::map<std::string, Claim>& claims) { claims.erase(job.str()); });
}

}  // namespace ty::jobs
