// SPDX-License-Identifier: Apache-2.0
// Framework images without images: an image URI resolves to an environment of this machine, given
// by configuration or found at start (a Python that can import torch answers for AWS's PyTorch
// images). The built-in algorithms, trainyard/<name>, are programs in a folder.
#pragma once

#include "base/sync.h"
#include "plan/plan.h"
#include "sys/sys.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::images {

/// One row of configuration: which URIs, and what they run in.
struct Definition {
    std::string name;  ///< "pytorch"
    std::vector<std::string>
        match;           ///< globs over the URI or its repository name: "*/pytorch-training:*"
    std::string python;  ///< interpreter, or a venv folder; empty: discovered
    std::vector<std::string> readable;
    std::vector<std::string> path;
    plan::Pairs variables;
    std::vector<std::string> entrypoint;
    std::string code;
    std::vector<std::string> requires_modules;  ///< the interpreter must import these: "torch"
    bool toolkit = true;
    bool launcher = false;    ///< as plan::Environment has it
    std::string description;  ///< of one without Python; empty: the host's programs
    std::string unusable;     ///< why, with the remedy; empty: it can be used
};

/// The repositories of AWS's framework images and what each needs; contract §2.2.
std::vector<Definition> aws_framework_definitions();

/// Of the training programs in this folder, sorted by name; none when it does not exist.
std::vector<Definition> built_in_definitions(const sys::fs::path& folder);

struct Probe {
    std::string python, version, prefix, base_prefix;
    std::vector<std::string> path;  ///< folders it imports from, also those a .pth file adds
    std::vector<std::pair<std::string, std::string>>
        modules;  ///< name -> version of those installed
};
/// Ask an interpreter what it has (without importing the packages). nullopt when it does not run.
std::optional<Probe> probe_python(const std::string& python);

class Catalogue {
public:
    /// `interpreters` in order of preference; each is asked once, on a thread started here, so that
    /// a daemon answers before its last Python did. `algorithms`: the folder of the built-in
    /// programs, looked at anew each time, so that one that was built meanwhile is there.
    Catalogue(std::vector<Definition> definitions, std::vector<std::string> interpreters,
              sys::fs::path algorithms = {});
    /// Throws unsupported "ImageNotMapped" or "EnvironmentUnavailable" with the nearest choices and
    /// the remedy. Waits for the interpreters only when the image needs one. Any thread.
    plan::Environment resolve(const std::string& image) const;
    /// For doctor and docs: one line per definition, usable or why not.
    struct Row {
        std::string name, state;
        bool usable = false;
    };
    std::vector<Row> rows() const;

private:
    std::vector<Definition> all_definitions() const;
    Row row_of(const Definition& definition) const;
    std::vector<std::string> nearest_images(const std::string& image) const;
    [[noreturn]] void refuse(const std::string& image) const;
    struct Answers {
        std::vector<Probe> probes;
        bool complete = false;
    };
    const std::vector<Probe>& probes() const;

    std::vector<Definition> definitions_;
    sys::fs::path algorithms_;
    mutable Sync<Answers> answers_;  ///< probes never change once complete
    TaskGroup tasks_;
};

}  // namespace ty::images
