// SPDX-License-Identifier: Apache-2.0
#include "agent/channels/channels.h"

#include "agent/channels/file/prefix.h"
#include "base/error.h"

#include <algorithm>

namespace ty::agent {

namespace {

void check_kind(const plan::Channel& channel) {
    const auto unsupported = [](std::string_view what) {
        throw_error(Code::unsupported, "ChannelKind",
                    "{} is not offered by this version; use S3Prefix and File", what);
    };
    switch (channel.input_mode) {
        case plan::InputMode::file:
        case plan::InputMode::fast_file:
            break;
        case plan::InputMode::pipe:
            unsupported("input mode Pipe");
            break;
    }
    switch (channel.data_type) {
        case plan::DataType::s3_prefix:
            break;
        case plan::DataType::manifest_file:
            unsupported("data type ManifestFile");
            break;
        case plan::DataType::augmented_manifest_file:
            unsupported("data type AugmentedManifestFile");
            break;
        case plan::DataType::file_system:
            unsupported("a file system data source");
            break;
    }
    if (channel.name.empty() || channel.name.starts_with('.') ||
        channel.name.find('/') != std::string::npos) {
        throw_error(Code::invalid, "ChannelName",
                    "the name cannot be a folder of /opt/ml/input/data");
    }
}

/// Every n-th object in the order of the keys: no overlap, and together all of them. A host may get
/// none.
void keep_shard(const StageContext& context, ChannelTree& tree) {
    const auto own = std::ranges::find(context.hosts, context.host);
    if (own == context.hosts.end()) return;
    const auto all = context.hosts.size();
    const auto ours = static_cast<std::size_t>(own - context.hosts.begin());
    std::ranges::sort(tree.files, {}, [](const ChannelFile& file) { return file.object.key; });
    std::vector<ChannelFile> kept;
    for (std::size_t i = ours; i < tree.files.size(); i += all)
        kept.push_back(std::move(tree.files[i]));
    tree.files = std::move(kept);
}

/// What has to be fetched for one channel; makes its empty folders.
std::vector<Download> plan_downloads(const StageContext& context, const plan::Channel& channel,
                                     aws::S3Client& client, const std::stop_token& stop) {
    check_kind(channel);
    const aws::S3Uri uri = aws::parse_s3_uri(channel.uri);
    ChannelTree tree = plan_channel(uri.key, client.list(uri.bucket, uri.key, context.by, stop));
    if (tree.files.empty() && tree.folders.empty()) {
        throw_error(Code::not_found, "NoObjects",
                    "no S3 objects found under \"{}\"; check the S3Uri", channel.uri);
    }
    if (channel.distribution == plan::Distribution::sharded_by_key) keep_shard(context, tree);
    const sys::fs::path root = context.paths.data(channel.name);
    make_folders(root);
    for (const std::string& folder : tree.folders) make_folders(root / folder);
    std::vector<Download> downloads;
    downloads.reserve(tree.files.size());
    for (const ChannelFile& file : tree.files) {
        downloads.push_back(
            {uri.bucket, file.object.key, file.object.etag, file.object.size, root / file.path});
    }
    return downloads;
}

}  // namespace

void stage_channels(const StageContext& context, const std::vector<plan::Channel>& channels,
                    const std::stop_token& stop) {
    if (channels.empty()) return;
    std::vector<Download> downloads;
    const std::unique_ptr<aws::S3Client> client = context.make_client();
    for (const plan::Channel& channel : channels) {
        in_context(format("channel \"{}\"", channel.name), [&] {
            std::vector<Download> more = plan_downloads(context, channel, *client, stop);
            downloads.insert(downloads.end(), std::make_move_iterator(more.begin()),
                             std::make_move_iterator(more.end()));
            return 0;
        });
        if (channel.input_mode == plan::InputMode::fast_file) {
            context.say(format(
                "channel \"{}\": FastFile is delivered as File: all objects are copied first",
                channel.name));
        }
    }
    download_all(context.make_client, downloads, context.on_progress, context.by, stop);
}

}  // namespace ty::agent
