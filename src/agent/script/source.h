// SPDX-License-Identifier: Apache-2.0
// The user's source: where it comes from, what in it is started and how. Fills /opt/ml/code.
#pragma once

#include "agent/contract/layout.h"
#include "agent/transfer/download.h"

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

/// Copy a folder of the host into /opt/ml/code, links that leave it left out.
void copy_folder(const sys::fs::path& from, const sys::fs::path& to);

struct SourceContext {
    const HostPaths& host;
    std::string program_base;  ///< "/opt/ml" as the program names it
    const MakeClient& make_client;
    Deadline by;
    std::stop_token stop;
};
/// Fetch and unpack what sagemaker_submit_directory names: an s3:// tar.gz or folder, or a path
/// below /opt/ml (archive or folder). Only into an empty code folder, as the toolkit does. Throws
/// not_found, invalid (a refused archive) and what transfers throw.
void fetch_source(const SourceContext& context, const std::string& submit);

enum class EntryKind { script, shell, package, command };
/// As the toolkit decides: ".sh" first, then setup.py, then ".py".
EntryKind entry_kind(std::string_view program, bool has_setup);

/// "a.py, lib/, README.md": for messages, at most `count` names.
std::string list_folder(const sys::fs::path& folder, std::size_t count = 12);

}  // namespace ty::agent
