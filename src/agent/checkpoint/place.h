// SPDX-License-Identifier: Apache-2.0
// Where checkpoints lie: a bucket, a prefix, and how to speak to the storage. Private to
// checkpoint/.
#pragma once

#include "agent/checkpoint/checkpoint.h"
#include "agent/checkpoint/manifest.h"
#include "aws/aws.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace ty::agent {

struct StoredObject {
    std::uint64_t size = 0;
    std::string etag;
};
using StoredObjects = std::unordered_map<std::string, StoredObject>;

class CheckpointPlace {
public:
    /// Throws invalid, unsupported naming the URI or the endpoint.
    CheckpointPlace(const CheckpointOptions& options, Clock& clock);

    const MakeClient& make_client() const { return make_client_; }
    const std::string& bucket() const { return bucket_; }
    /// Full key of a name below the prefix.
    std::string key(const std::string& name) const { return prefix_ + name; }
    /// Longer names than this have no key; S3 allows 1024 bytes.
    bool has_room_for(std::string_view path) const;

    struct Content {
        std::vector<CheckpointId> manifests;  ///< sorted, oldest first
        StoredObjects data;                   ///< by name below ".trainyard/data/"
        StoredObjects visible;                ///< by name; nothing of ".trainyard/"
    };
    Content list_all(aws::S3Client& client, Deadline by, const std::stop_token& stop) const;
    std::vector<CheckpointId> list_manifests(aws::S3Client& client, Deadline by,
                                             const std::stop_token& stop) const;
    StoredObjects list_data(aws::S3Client& client, Deadline by, const std::stop_token& stop) const;

    /// Throws corrupt (bad content), not_found (deleted meanwhile), and what S3 says.
    Manifest read_manifest(aws::S3Client& client, const CheckpointId& id, Deadline by,
                           const std::stop_token& stop) const;

    /// Server-side copy between names below the prefix, of any size.
    void copy(aws::S3Client& client, const std::string& from, const std::string& etag,
              std::uint64_t size, const std::string& to, Deadline by,
              const std::stop_token& stop) const;

private:
    std::string bucket_;
    std::string prefix_;  ///< "" or with a slash at its end
    MakeClient make_client_;
};

}  // namespace ty::agent
