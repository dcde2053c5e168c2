// SPDX-License-Identifier: Apache-2.0
// Many objects into files, several at a time, large ones in ranges; memory stays bounded by what is
// in flight. A version is pinned by its ETag: an object replaced meanwhile fails the transfer.
#pragma once

#include "agent/transfer/meter.h"
#include "aws/aws.h"
#include "sys/fd.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace ty::agent {

using MakeClient = std::function<std::unique_ptr<aws::S3Client>()>;

struct Download {
    std::string bucket, key, etag;
    std::uint64_t size = 0;
    sys::fs::path path;  ///< its folder is made when missing
};

/// Blocks until all are there. `on_progress` is called on this thread. Throws what S3 said,
/// exhausted (disk full, naming the place and the need), conflict (an object changed), cancelled.
void download_all(const MakeClient& make_client, const std::vector<Download>& downloads,
                  const std::function<void(const Progress&)>& on_progress, Deadline by,
                  const std::stop_token& stop);

}  // namespace ty::agent
