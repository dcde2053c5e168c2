// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/upload.h"

#include "agent/transfer/gzip.h"
#include "agent/transfer/tar_writer.h"
#include "base/error.h"
#include "base/log.h"
#include "base/result.h"

#include <algorithm>

namespace ty::agent {

namespace {

constexpr std::size_t kPart = 8u << 20;
constexpr std::size_t kWorkers = 2;
constexpr std::size_t kWaiting = 2;  ///< parts made but not yet taken by a worker
constexpr std::size_t kChunk = 1u << 20;

}  // namespace

ObjectWriter::ObjectWriter(const MakeClient& make_client, std::string bucket, std::string key,
                           Deadline by, std::stop_token stop)
    : make_client_(make_client),
      bucket_(std::move(bucket)),
      key_(std::move(key)),
      by_(by),
      stop_(std::move(stop)),
      client_(make_client()) {}

ObjectWriter::~ObjectWriter() {
    workers_.stop_and_join();
    if (done_ || upload_.empty()) return;
    const Result<std::monostate> aborted = capture(
        [&] { client_->abort_upload(bucket_, key_, upload_, Deadline::in(seconds(5)), {}); });
    if (!aborted.ok())
        log::info("unfinished upload left for the sweeper", {{"error", aborted.error().what()}});
}

/// S3 allows 10,000 parts: they grow so that no size is out of reach.
std::size_t ObjectWriter::part_size() const {
    return parts_ < 1000 ? kPart : parts_ < 4000 ? 2 * kPart : 8 * kPart;
}

void ObjectWriter::write(std::string_view data) {
    while (!data.empty()) {
        const std::size_t room = part_size() - buffer_.size();
        const std::string_view piece = data.substr(0, room);
        if (buffer_.capacity() < part_size() && buffer_.size() + piece.size() > kChunk)
            buffer_.reserve(part_size());
        buffer_.append(piece);
        data.remove_prefix(piece.size());
        if (buffer_.size() == part_size()) send_part();
    }
}

void ObjectWriter::send_part() {
    if (upload_.empty()) start_workers();
    Part part;
    part.number = ++parts_;
    part.data = std::move(buffer_);
    buffer_ = {};
    state_.wait(
        by_, stop_,
        [](const State& state) { return state.waiting.size() < kWaiting || state.failure; },
        [&](State& state) {
            state.etags.resize(static_cast<std::size_t>(part.number));
            if (!state.failure) state.waiting.push_back(std::move(part));
        });
    state_.notify();
    check();
}

void ObjectWriter::start_workers() {
    upload_ = client_->start_upload(bucket_, key_, by_, stop_);
    for (std::size_t i = 0; i < kWorkers; ++i) {
        workers_.start("upload", [this](const std::stop_token& stop) { work(stop); });
    }
}

void ObjectWriter::work(const std::stop_token& stop) {
    const Result<std::monostate> done = capture([&] {
        const std::unique_ptr<aws::S3Client> client = make_client_();
        for (;;) {
            std::optional<Part> part;
            state_.wait(
                by_, stop,
                [](const State& state) { return !state.waiting.empty() || state.closed; },
                [&](State& state) {
                    if (state.waiting.empty()) return;
                    part = std::move(state.waiting.front());
                    state.waiting.pop_front();
                    ++state.in_flight;
                });
            if (!part) return;
            state_.notify();
            std::string etag =
                client->put_part(bucket_, key_, upload_, part->number, part->data, by_, stop_);
            state_.with([&](State& state) {
                state.etags[static_cast<std::size_t>(part->number - 1)] = std::move(etag);
                --state.in_flight;
            });
            state_.notify();
        }
    });
    if (done.ok()) return;
    state_.with([&](State& state) {
        if (!state.failure) state.failure = done.error();
    });
    state_.notify();
}

void ObjectWriter::check() {
    if (stop_.stop_requested())
        throw_error(Code::cancelled, "Stopped", "the upload of s3://{}/{} was cancelled", bucket_,
                    key_);
    const std::optional<Error> failure =
        state_.with([](const State& state) { return state.failure; });
    if (failure) throw *failure;
}

void ObjectWriter::finish() {
    if (upload_.empty()) {
        client_->put(bucket_, key_, buffer_, by_, stop_);
        done_ = true;
        return;
    }
    if (!buffer_.empty()) send_part();
    state_.wait(
        by_, stop_,
        [](const State& state) {
            return (state.waiting.empty() && state.in_flight == 0) || state.failure;
        },
        [](State& state) { state.closed = true; });
    state_.notify();
    check();
    const std::vector<std::string> etags =
        state_.with([](const State& state) { return state.etags; });
    client_->complete_upload(bucket_, key_, upload_, etags, by_, stop_);
    done_ = true;
}

bool upload_archive(const Transfer& how, const sys::fs::path& root, const std::string& bucket,
                    const std::string& key, TarEnd end) {
    const std::vector<TreeEntry> entries = read_tree(root, how.warn);
    if (entries.empty()) return false;
    Progress progress;
    for (const TreeEntry& entry : entries) progress.all_bytes += entry.size;
    ObjectWriter object(how.make_client, bucket, key, how.by, how.stop);
    GzipWriter gzip([&object](std::string_view data) { object.write(data); });
    write_tar(
        root, entries, [&gzip](std::string_view data) { gzip.write(data); }, how.warn,
        [&](std::uint64_t bytes) {
            progress.bytes += bytes;
            how.on_progress(progress);
        },
        end);
    gzip.finish();
    object.finish();
    return true;
}

bool upload_files(const Transfer& how, const sys::fs::path& root, const std::string& bucket,
                  const std::string& prefix) {
    Progress progress;
    std::vector<TreeEntry> files;
    for (TreeEntry& entry : read_tree(root, how.warn)) {
        if (entry.kind == TreeEntry::Kind::link)
            how.warn(entry.path + " is left out: a link has no object to be");
        if (entry.kind != TreeEntry::Kind::file) continue;
        progress.all_bytes += entry.size;
        files.push_back(std::move(entry));
    }
    if (files.empty()) return false;
    progress.all_objects = files.size();
    const sys::Fd folder = sys::open_dir(root);
    std::vector<std::byte> buffer(kChunk);
    for (const TreeEntry& entry : files) {
        const sys::Fd file = open_in_tree(folder, entry.path);
        ObjectWriter object(how.make_client, bucket, prefix + "/" + entry.path, how.by, how.stop);
        while (const std::size_t got = sys::read_some(file.get(), buffer)) {
            object.write({reinterpret_cast<const char*>(buffer.data()), got});
            progress.bytes += got;
            how.on_progress(progress);
        }
        object.finish();
        ++progress.objects;
    }
    return true;
}

}  // namespace ty::agent
