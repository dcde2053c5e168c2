// SPDX-License-Identifier: Apache-2.0
// S3Prefix semantics: which object becomes which file of a channel. Pure; every odd key there can
// be is decided here and nowhere else.
#pragma once

#include "aws/aws.h"

#include <string>
#include <vector>

namespace ty::agent {

struct ChannelFile {
    std::string path;  ///< relative to the channel's folder
    aws::S3Client::Object object;
};
struct ChannelTree {
    std::vector<ChannelFile> files;
    std::vector<std::string> folders;  ///< from "key/" markers
};

/// `prefix` is a string prefix; the relative name is what follows it, slashes in front stripped; a
/// key equal to the prefix is one file under its base name. Throws invalid ("BadKey") naming the
/// key: "..", too long names, two keys for one file, a key that is a file and a folder at once.
ChannelTree plan_channel(const std::string& prefix,
                         const std::vector<aws::S3Client::Object>& objects);

}  // namespace ty::agent
