// SPDX-License-Identifier: Apache-2.0
// Gzip files of samples for tests, in a folder that goes away.
#pragma once

#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace alg::test {

namespace fs = std::filesystem;

class Folder {
public:
    Folder() {
        std::string name = (fs::temp_directory_path() / "masked-lm-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const fs::path& path() const { return path_; }

    fs::path text(const std::string& name, const std::string& content) const {
        const fs::path file = path_ / name;
        fs::create_directories(file.parent_path());
        std::FILE* out = std::fopen(file.c_str(), "wb");
        std::fwrite(content.data(), 1, content.size(), out);
        std::fclose(out);
        return file;
    }
    fs::path gz(const std::string& name, const std::string& content) const {
        const fs::path file = path_ / name;
        fs::create_directories(file.parent_path());
        const gzFile out = gzopen(file.c_str(), "wb");
        if (!content.empty()) gzwrite(out, content.data(), static_cast<unsigned>(content.size()));
        gzclose(out);
        return file;
    }

private:
    fs::path path_;
};

/// [CLS] left [SEP] right [SEP], each token a word; tokens count up from `first`.
inline std::string sample_line(int first, int left, int right, int follows) {
    std::string fields[4];
    const int length = left + right + 3;
    for (int i = 0; i < length; ++i) {
        const bool special = i == 0 || i == left + 1 || i == length - 1;
        const char* space = i == 0 ? "" : " ";
        fields[0] += space + std::to_string(i == 0 ? 1 : special ? 2 : first + i);
        fields[1] += space + std::to_string(i > left + 1 ? 1 : 0);
        fields[2] += space + std::to_string(i);
        fields[3] += space + std::to_string(special ? -1 : 0);
    }
    return fields[0] + ";" + fields[1] + ";" + fields[2] + ";" + fields[3] + ";" +
           std::to_string(follows) + "\n";
}

}  // namespace alg::test
