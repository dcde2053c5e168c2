// SPDX-License-Identifier: Apache-2.0
#include "agent/script/source.h"

#include "agent/channels/file/prefix.h"
#include "agent/transfer/tree.h"
#include "agent/transfer/unpack.h"
#include "base/error.h"
#include "base/text.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

using sys::fs::path;

bool is_archive_name(std::string_view name) {
    return name.ends_with(".tar.gz") || name.ends_with(".tgz") || name.ends_with(".tar");
}

void fetch_archive(const SourceContext& context, const aws::S3Uri& uri, const std::string& submit) {
    const std::unique_ptr<aws::S3Client> client = context.make_client();
    const auto head = client->head(uri.bucket, uri.key, context.by, context.stop);
    if (!head)
        throw_error(Code::not_found, "NoSource", "{} does not exist; upload the source again",
                    submit);
    const path file = context.host.scratch() / "source.tar.gz";
    download_all(
        context.make_client, {{uri.bucket, uri.key, head->etag, head->size, file}},
        [](const Progress&) {}, context.by, context.stop);
    unpack(file, submit, context.host.code());
    (void)::unlink(file.c_str());
}

void fetch_folder(const SourceContext& context, const aws::S3Uri& uri, const std::string& submit) {
    const std::unique_ptr<aws::S3Client> client = context.make_client();
    const ChannelTree tree =
        plan_channel(uri.key, client->list(uri.bucket, uri.key, context.by, context.stop));
    if (tree.files.empty())
        throw_error(Code::not_found, "NoSource",
                    "no S3 objects found under {}; upload the source again", submit);
    std::vector<Download> downloads;
    for (const ChannelFile& file : tree.files) {
        downloads.push_back({uri.bucket, file.object.key, file.object.etag, file.object.size,
                             context.host.code() / file.path});
    }
    download_all(
        context.make_client, downloads, [](const Progress&) {}, context.by, context.stop);
}

}  // namespace

void copy_folder(const path& from, const path& to) {
    const std::vector<TreeEntry> entries = read_tree(from, [](const std::string&) {});
    const sys::Fd root = sys::open_dir(from);
    make_folders(to);
    std::vector<std::byte> buffer(1u << 18);
    for (const TreeEntry& entry : entries) {
        const path target = to / entry.path;
        switch (entry.kind) {
            case TreeEntry::Kind::folder:
                make_folders(target);
                break;
            case TreeEntry::Kind::link:
                if (::symlink(entry.target.c_str(), target.c_str()) != 0)
                    throw_errno("create link {}", target.string());
                break;
            case TreeEntry::Kind::file: {
                const sys::Fd in = open_in_tree(root, entry.path);
                const sys::Fd out =
                    sys::open_write(target, O_TRUNC | O_NOFOLLOW, (entry.mode & 0777) | 0600);
                while (const std::size_t got = sys::read_some(in.get(), buffer)) {
                    sys::write_all(out.get(), std::span<const std::byte>(buffer).first(got));
                }
                break;
            }
        }
    }
}

void fetch_source(const SourceContext& context, const std::string& submit) {
    if (!sys::fs::is_empty(context.host.code())) return;
    if (to_lower(submit).starts_with("s3://")) {
        const aws::S3Uri uri = aws::parse_s3_uri(submit);
        if (is_archive_name(uri.key)) {
            fetch_archive(context, uri, submit);
        } else {
            fetch_folder(context, uri, submit);
        }
        return;
    }
    std::string local = submit.starts_with("file://") ? submit.substr(7) : submit;
    for (const std::string& base : {context.program_base, std::string("/opt/ml")}) {
        if (!local.starts_with(base + "/") || local.find("..") != std::string::npos) continue;
        const path file = context.host.ml() / local.substr(base.size() + 1);
        if (sys::fs::is_directory(file)) {
            copy_folder(file, context.host.code());
        } else if (sys::fs::is_regular_file(file)) {
            unpack(file, submit, context.host.code());
        } else {
            throw_error(Code::not_found, "NoSource",
                        "sagemaker_submit_directory {} does not exist; the channel that brings it "
                        "holds: {}",
                        submit, list_folder(file.parent_path()));
        }
        return;
    }
    throw_error(Code::invalid, "NoSource",
                "sagemaker_submit_directory {} is neither an s3:// URI nor a path below /opt/ml",
                submit);
}

EntryKind entry_kind(std::string_view program, bool has_setup) {
    if (program.ends_with(".sh")) return EntryKind::shell;
    if (has_setup) return EntryKind::package;
    if (program.ends_with(".py")) return EntryKind::script;
    return EntryKind::command;
}

std::string list_folder(const path& folder, std::size_t count) {
    std::vector<std::string> names;
    std::error_code failed;
    for (const auto& entry : sys::fs::directory_iterator(folder, failed)) {
        std::error_code ignored;
        names.push_back(to_valid_utf8(entry.path().filename().string()) +
                        (entry.is_directory(ignored) ? "/" : ""));
    }
    if (failed) return "nothing (the folder does not exist)";
    if (names.empty()) return "nothing";
    std::ranges::sort(names);
    const std::size_t more = names.size() > count ? names.size() - count : 0;
    names.resize(names.size() - more);
    return join(names, ", ") + (more > 0 ? format(" and {} more", more) : "");
}

}  // namespace ty::agent
