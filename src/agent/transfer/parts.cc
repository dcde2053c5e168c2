// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/parts.h"

#include "agent/transfer/gzip.h"
#include "base/error.h"
#include "base/log.h"
#include "base/result.h"

#include <algorithm>

namespace ty::agent {

namespace {

constexpr std::uint64_t kSmallest = 5u << 20;  ///< S3: of every part but the last
constexpr std::uint64_t kStreamed = 8u << 20;
constexpr std::uint64_t kCopied = 1u << 30;  ///< S3 allows 5 GiB; one answer should not take long

constexpr const char* kJoined = ".joined";

/// Two empty tar blocks as a gzip member of their own.
std::string end_mark() {
    std::string member;
    GzipWriter gzip([&member](std::string_view data) { member.append(data); });
    gzip.write(std::string(1024, '\0'));
    gzip.finish();
    return member;
}

/// Objects one behind the other as one object.
class Joiner {
public:
    Joiner(const Transfer& how, const std::string& bucket, std::string key)
        : how_(how), bucket_(bucket), key_(std::move(key)), client_(how.make_client()) {}
    Joiner(const Joiner&) = delete;
    Joiner& operator=(const Joiner&) = delete;
    ~Joiner() {
        if (done_ || upload_.empty()) return;
        const Result<std::monostate> aborted = capture(
            [&] { client_->abort_upload(bucket_, key_, upload_, Deadline::in(seconds(5)), {}); });
        if (!aborted.ok())
            log::info("unfinished upload left for the sweeper",
                      {{"error", aborted.error().what()}});
    }

    void add(const std::string& key, const aws::S3Client::Head& head) {
        aws::S3Client::Range rest{bucket_, key, head.etag, 0, head.size};
        // What is in the buffer comes first: it has to become large enough to be a part.
        if (!buffer_.empty() && buffer_.size() < kSmallest) fetch(rest, kSmallest - buffer_.size());
        if (buffer_.size() >= kSmallest) send_buffer();
        while (buffer_.empty() && rest.length >= kSmallest && copies_) copy(rest);
        while (rest.length > 0) {
            fetch(rest, kStreamed - buffer_.size());
            if (buffer_.size() >= kStreamed) send_buffer();
        }
    }

    void finish() {
        buffer_ += end_mark();
        if (upload_.empty()) {
            client_->put(bucket_, key_, buffer_, how_.by, how_.stop);
        } else {
            send_buffer();
            client_->complete_upload(bucket_, key_, upload_, etags_, how_.by, how_.stop);
        }
        done_ = true;
    }

private:
    /// Takes bytes from the front of `rest`.
    void fetch(aws::S3Client::Range& rest, std::uint64_t most) {
        const std::uint64_t length = std::min(most, rest.length);
        client_->get(
            rest.bucket, rest.key, rest.offset, length, rest.etag,
            [this](std::span<const std::byte> data) {
                buffer_.append(reinterpret_cast<const char*>(data.data()), data.size());
            },
            how_.by, how_.stop);
        advance(rest, length);
    }

    void copy(aws::S3Client::Range& rest) {
        aws::S3Client::Range piece = rest;
        piece.length = std::min(kCopied, rest.length);
        start();
        try {
            etags_.push_back(client_->put_part_copy(bucket_, key_, upload_, next_number(), piece,
                                                    how_.by, how_.stop));
        } catch (const Error& error) {
            if (error.code() != Code::unsupported) throw;
            copies_ = false;  // this storage cannot: everything travels
            return;
        }
        advance(rest, piece.length);
    }

    static void advance(aws::S3Client::Range& rest, std::uint64_t length) {
        rest.offset += length;
        rest.length -= length;
    }
    void send_buffer() {
        start();
        etags_.push_back(
            client_->put_part(bucket_, key_, upload_, next_number(), buffer_, how_.by, how_.stop));
        buffer_.clear();
    }
    void start() {
        if (upload_.empty()) upload_ = client_->start_upload(bucket_, key_, how_.by, how_.stop);
    }
    int next_number() const { return static_cast<int>(etags_.size()) + 1; }

    const Transfer& how_;
    const std::string bucket_, key_;
    std::unique_ptr<aws::S3Client> client_;
    std::string buffer_;
    std::string upload_;  ///< id; empty while everything fits into one request
    std::vector<std::string> etags_;
    bool copies_ = true, done_ = false;
};

}  // namespace

bool join_parts(const Transfer& how, const PartsPlace& place, const std::vector<std::string>& nodes,
                const std::string& name) {
    const std::unique_ptr<aws::S3Client> client = how.make_client();
    Joiner joiner(how, place.bucket, place.output + "/" + name);
    bool any = false;
    for (const std::string& node : nodes) {
        const std::string key = place.folder(node) + "/" + name;
        const auto head = client->head(place.bucket, key, how.by, how.stop);
        if (!head) continue;
        any = true;
        joiner.add(key, *head);
    }
    if (any) joiner.finish();
    return any;
}

void note_joined(const Transfer& how, const PartsPlace& place, bool model) {
    how.make_client()->put(place.bucket, place.folder(kJoined), model ? "model" : "-", how.by,
                           how.stop);
}

std::optional<bool> find_joined(const Transfer& how, const PartsPlace& place) {
    const auto head =
        how.make_client()->head(place.bucket, place.folder(kJoined), how.by, how.stop);
    if (!head) return std::nullopt;
    return head->size > 1;
}

void remove_parts(const Transfer& how, const PartsPlace& place) {
    const Result<std::monostate> removed = capture([&] {
        const std::unique_ptr<aws::S3Client> client = how.make_client();
        const std::string note = place.folder(kJoined);
        for (const auto& object :
             client->list(place.bucket, place.output + "/.parts/", how.by, how.stop)) {
            if (object.key != note) client->remove(place.bucket, object.key, how.by, how.stop);
        }
        client->remove(place.bucket, note, how.by, how.stop);  // last: it guards the others
    });
    if (!removed.ok())
        how.warn(std::string("parts of the results were left behind: ") + removed.error().what());
}

}  // namespace ty::agent
