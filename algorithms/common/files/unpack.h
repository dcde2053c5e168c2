// SPDX-License-Identifier: Apache-2.0
// The model of an earlier job, as SageMaker delivers it: model.tar.gz.
#pragma once

#include <filesystem>

namespace alg {

/// A folder that is removed with this object.
class TemporaryFolder {
public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) {
        other.path_.clear();
    }
    TemporaryFolder& operator=(TemporaryFolder&&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

/// Writes the archive's files of a model (config.json, vocab.txt, tokenizer_config.json, weights)
/// into `folder` under their base names; everything else, links too, is passed over, so that no
/// name in the archive chooses a place. Throws Failure naming the archive: not a tar or gzip file,
/// truncated, a name twice, no config.json in it, a full disk.
void unpack_model(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace alg
