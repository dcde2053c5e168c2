// SPDX-License-Identifier: Apache-2.0
// The bytes of changed files into storage: small ones several at a time, large ones in parallel
// parts, each read in place and proven unchanged by its mark. Private to checkpoint/.
#pragma once

#include "agent/checkpoint/place.h"
#include "agent/checkpoint/scan.h"
#include "base/error.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

struct SendJob {
    std::string path;
    FileMark mark;
    sys::Fd file;          ///< opened while the folder was whole; closed: opened by path when its
                           ///< turn comes
    std::string sha256;    ///< of the version in storage when it has the same size; else empty
    std::string sample;    ///< of that version, when known
    bool by_copy = false;  ///< was overwritten in place while being read: copy it aside first
};

struct Sent {
    enum class What {
        stored,   ///< the bytes are in storage
        same,     ///< as the version that was there; nothing was sent
        changed,  ///< no longer what the mark says: not to be used
        untried,  ///< something failed before
    } what = What::untried;
    std::string sha256, sample;
};

struct SendPlan {
    const CheckpointPlace& place;
    CheckpointId id;  ///< names the data
    const sys::fs::path& root;
    const sys::fs::path& staging;
};

struct SendResult {
    std::vector<Sent> sent;        ///< one per job, in order
    std::optional<Error> failure;  ///< what storage says, timed_out, cancelled
};
/// Blocks.
SendResult send_files(const SendPlan& plan, std::vector<SendJob>& jobs, Deadline by,
                      const std::stop_token& stop);

/// Calls `work` for 0 … count-1 on up to four threads, each with a client of its own; the token
/// tells that another one failed. Throws the first failure.
using SharedWork = std::function<void(std::size_t, aws::S3Client&, const std::stop_token&)>;
void share_work(const CheckpointPlace& place, std::size_t count, const std::stop_token& stop,
                const SharedWork& work);

/// Digest of a whole open file.
std::string digest_file(int fd, const std::stop_token& stop);

}  // namespace ty::agent
