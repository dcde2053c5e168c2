// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/send.h"

#include "agent/transfer/tree.h"
#include "agent/transfer/upload.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/sync.h"
#include "base/text.h"

#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr std::uint64_t kSmall = 4u << 20;
constexpr std::size_t kWorkers = 4;
constexpr std::size_t kChunk = 1u << 20;
constexpr std::uint64_t kSample = 64u << 10;
const Sent kChanged{Sent::What::changed, "", ""};

/// One pread, EINTR retried; 0 at the end of the file.
std::size_t read_at(int fd, std::uint64_t offset, std::span<std::byte> into) {
    while (true) {
        const ssize_t got = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
        if (got >= 0) return static_cast<std::size_t>(got);
        if (errno != EINTR) throw_errno("read a checkpoint file");
    }
}

/// Calls `sink` with exactly `size` bytes; false when the file is shorter.
template <typename Sink>
bool read_through(int fd, std::uint64_t size, const std::stop_token& stop, Sink sink) {
    std::vector<std::byte> buffer(std::min<std::uint64_t>(size, kChunk));
    for (std::uint64_t at = 0; at < size;) {
        if (stop.stop_requested())
            throw_error(Code::cancelled, "Stopped", "the upload of a checkpoint was cancelled");
        const std::size_t want = std::min<std::uint64_t>(buffer.size(), size - at);
        const std::size_t got = read_at(fd, at, std::span(buffer).first(want));
        if (got == 0) return false;
        sink(std::string_view(reinterpret_cast<const char*>(buffer.data()), got));
        at += got;
    }
    return true;
}

std::string hex_digest(Hasher& hasher) {
    return to_hex(as_bytes(hasher.finish()));
}

/// Beginning, middle and end: tells most changed files from unchanged ones without reading them.
std::string sample_of(int fd, std::uint64_t size) {
    Hasher hasher(HashKind::sha256);
    std::vector<std::byte> buffer(std::min(size, kSample));
    for (const std::uint64_t at : {std::uint64_t(0), size / 2, size - buffer.size()})
        hasher.update(std::span(buffer).first(read_at(fd, at, buffer)));
    return hex_digest(hasher);
}

/// A copy without a name: shares blocks where the file system can. Closed when there is no room.
sys::Fd copy_aside(int fd, std::uint64_t size, const sys::fs::path& staging) {
    std::error_code ignored;
    sys::fs::create_directories(staging, ignored);
    sys::Fd copy(::open(staging.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!copy.is_open()) return {};
    off_t at = 0;
    while (static_cast<std::uint64_t>(at) < size) {
        const ssize_t got = ::copy_file_range(fd, &at, copy.get(), nullptr,
                                              size - static_cast<std::uint64_t>(at), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return {};
    }
    return copy;
}

class Sender {
public:
    Sender(const SendPlan& plan, std::vector<SendJob>& jobs, Deadline by,
           const std::stop_token& stop)
        : plan_(plan), jobs_(jobs), by_(by), stop_(stop), root_(sys::open_dir(plan.root)) {}

    SendResult run() {
        SendResult result;
        result.sent.resize(jobs_.size());
        const auto done = capture([&] { send_all(result.sent); });
        if (!done.ok()) result.failure = done.error();
        return result;
    }

private:
    void send_all(std::vector<Sent>& sent) {
        std::vector<std::size_t> small, large;
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            (jobs_[i].mark.size <= kSmall ? small : large).push_back(i);
        send_small_ones(small, sent);
        for (const std::size_t i : large) {
            sent[i] = send(jobs_[i], [&](int fd) { return send_large(jobs_[i], fd); });
        }
    }

    void send_small_ones(const std::vector<std::size_t>& small, std::vector<Sent>& sent) {
        share_work(plan_.place, small.size(), stop_,
                   [&](std::size_t turn, aws::S3Client& client, const std::stop_token& halt) {
                       SendJob& job = jobs_[small[turn]];
                       sent[small[turn]] =
                           send(job, [&](int fd) { return send_small(client, job, fd, halt); });
                   });
    }

    /// Around one file: open it, see that it is the one meant before and after.
    template <typename Fn>
    Sent send(SendJob& job, Fn content) {
        sys::Fd file = std::move(job.file);
        if (!file.is_open()) {
            auto opened = capture([&] { return open_in_tree(root_, job.path); });
            if (!opened.ok()) return kChanged;  // gone, or no file any more
            file = std::move(opened).value();
        }
        if (mark_of(file.get()) != job.mark) return kChanged;
        sys::Fd copy;
        if (job.by_copy) copy = copy_aside(file.get(), job.mark.size, plan_.staging);
        if (copy.is_open()) {
            if (mark_of(file.get()) != job.mark) return kChanged;
            return content(copy.get());
        }
        Sent sent = content(file.get());
        if (mark_of(file.get()) != job.mark) return kChanged;
        return sent;
    }

    std::string key_of(const SendJob& job) const {
        return plan_.place.key(data_key(plan_.id, job.path));
    }

    Sent send_small(aws::S3Client& client, const SendJob& job, int fd,
                    const std::stop_token& stop) {
        std::string body;
        body.reserve(job.mark.size);
        if (!read_through(fd, job.mark.size, stop, [&](std::string_view data) { body += data; }))
            return kChanged;
        Sent sent{Sent::What::stored, sha256_hex(body), ""};
        if (sent.sha256 == job.sha256) {
            sent.what = Sent::What::same;
            return sent;
        }
        client.put(plan_.place.bucket(), key_of(job), body, by_, stop);
        return sent;
    }

    Sent send_large(const SendJob& job, int fd) {
        Sent sent{Sent::What::stored, "", sample_of(fd, job.mark.size)};
        if (!job.sha256.empty() && (job.sample.empty() || job.sample == sent.sample)) {
            Hasher before(HashKind::sha256);
            if (!read_through(fd, job.mark.size, stop_,
                              [&](std::string_view data) { before.update(data); }))
                return kChanged;
            sent.sha256 = hex_digest(before);
            if (sent.sha256 == job.sha256) {
                sent.what = Sent::What::same;
                return sent;
            }
        }
        Hasher hasher(HashKind::sha256);
        const std::string key = key_of(job);
        ObjectWriter object(plan_.place.make_client(), plan_.place.bucket(), key, by_, stop_);
        const bool whole = read_through(fd, job.mark.size, stop_, [&](std::string_view data) {
            hasher.update(data);
            object.write(data);
        });
        // Without finish() no object appears.
        if (!whole) return kChanged;
        object.finish();
        sent.sha256 = hex_digest(hasher);
        return sent;
    }

    const SendPlan& plan_;
    std::vector<SendJob>& jobs_;
    const Deadline by_;
    const std::stop_token& stop_;
    const sys::Fd root_;
};

}  // namespace

void share_work(const CheckpointPlace& place, std::size_t count, const std::stop_token& stop,
                const SharedWork& work) {
    struct Shared {
        std::size_t next = 0;
        std::optional<Error> failure;
    };
    Sync<Shared> shared;
    std::stop_source halt;
    const std::stop_callback forward(stop, [&halt] { halt.request_stop(); });
    const auto run = [&] {
        const Result<std::monostate> done = capture([&] {
            const auto client = place.make_client()();
            while (true) {
                const std::size_t turn = shared.with(
                    [](Shared& state) { return state.failure ? SIZE_MAX : state.next++; });
                if (turn >= count) return;
                work(turn, *client, halt.get_token());
            }
        });
        if (done.ok()) return;
        shared.with([&](Shared& state) {
            if (!state.failure) state.failure = done.error();
        });
        halt.request_stop();
    };
    TaskGroup workers;
    for (std::size_t i = 1; i < std::min(kWorkers, count); ++i)
        workers.start("ckpt-send", [&run](const std::stop_token&) { run(); });
    if (count > 0) run();
    workers.stop_and_join();
    const auto failure = shared.with([](const Shared& state) { return state.failure; });
    if (failure) throw *failure;
}

std::string digest_file(int fd, const std::stop_token& stop) {
    Hasher hasher(HashKind::sha256);
    read_through(fd, mark_of(fd).size, stop, [&](std::string_view data) { hasher.update(data); });
    return hex_digest(hasher);
}

SendResult send_files(const SendPlan& plan, std::vector<SendJob>& jobs, Deadline by,
                      const std::stop_token& stop) {
    if (jobs.empty()) return {};
    return Sender(plan, jobs, by, stop).run();
}

}  // namespace ty::agent
