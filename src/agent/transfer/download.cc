// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/download.h"

#include "agent/contract/layout.h"
#include "base/error.h"
#include "base/result.h"
#include "base/sync.h"

#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr std::uint64_t kRange = 32u << 20;
constexpr std::size_t kWorkers = 4;

/// One range of one object.
struct Piece {
    std::size_t download = 0;
    std::uint64_t offset = 0, length = 0;
};

struct Shared {
    std::size_t next = 0;             ///< piece to be taken
    std::vector<std::uint64_t> left;  ///< bytes missing, per download
    Progress progress;
    std::optional<Error> failure;
    std::size_t running = 0;
};

std::vector<Piece> cut(const std::vector<Download>& downloads) {
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < downloads.size(); ++i) {
        std::uint64_t offset = 0;
        do {
            const std::uint64_t length = std::min(kRange, downloads[i].size - offset);
            pieces.push_back({i, offset, length});
            offset += length;
        } while (offset < downloads[i].size);
    }
    return pieces;
}

void check_room(const std::vector<Download>& downloads) {
    std::uint64_t need = 0;
    for (const Download& download : downloads) need += download.size;
    const sys::fs::path place = downloads.front().path.parent_path();
    struct statvfs info = {};
    if (::statvfs(place.c_str(), &info) != 0) return;
    const std::uint64_t free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
    if (need > free) {
        throw_error(
            Code::exhausted, "NoSpace",
            "the data needs {}, {} are free at {}; free some space or move the state folder",
            to_string(Bytes(need)), to_string(Bytes(free)), place.string());
    }
}

/// Folders and empty files of the final size, so that ranges can be written in any order and an
/// overfull disk shows before the transfer.
void make_files(const std::vector<Download>& downloads) {
    sys::fs::path last;
    for (const Download& download : downloads) {
        if (download.path.parent_path() != last) {
            last = download.path.parent_path();
            make_folders(last);
        }
        const sys::Fd file = sys::open_write(download.path, O_TRUNC | O_NOFOLLOW);
        if (download.size > kRange) {
            const int failed = ::posix_fallocate(file.get(), 0, static_cast<off_t>(download.size));
            if (failed != 0)
                throw errno_error(failed,
                                  format("reserve {} for {}", to_string(Bytes(download.size)),
                                         download.path.string()));
        }
    }
}

class Fetcher {
public:
    Fetcher(const std::vector<Download>& downloads, const std::vector<Piece>& pieces,
            Sync<Shared>& shared)
        : downloads_(downloads), pieces_(pieces), shared_(shared) {}

    void work(aws::S3Client& client, Deadline by, const std::stop_token& stop) {
        for (;;) {
            const std::optional<Piece> piece =
                shared_.with([&](Shared& shared) -> std::optional<Piece> {
                    if (shared.failure || shared.next >= pieces_.size()) return std::nullopt;
                    return pieces_[shared.next++];
                });
            if (!piece || stop.stop_requested()) return;
            fetch(client, *piece, by, stop);
            shared_.with([&](Shared& shared) {
                shared.left[piece->download] -= piece->length;
                if (shared.left[piece->download] == 0) ++shared.progress.objects;
            });
        }
    }

private:
    void fetch(aws::S3Client& client, const Piece& piece, Deadline by,
               const std::stop_token& stop) {
        const Download& download = downloads_[piece.download];
        if (piece.length == 0) return;
        const sys::Fd file(::open(download.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
        if (!file.is_open()) throw_errno("open {}", download.path.string());
        std::uint64_t at = piece.offset;
        client.get(
            download.bucket, download.key, piece.offset, piece.length, download.etag,
            [&](std::span<const std::byte> data) {
                for (std::size_t done = 0; done < data.size();) {
                    const ssize_t wrote = ::pwrite(file.get(), data.data() + done,
                                                   data.size() - done, static_cast<off_t>(at));
                    if (wrote < 0 && errno == EINTR) continue;
                    if (wrote < 0) throw_errno("write {}", download.path.string());
                    done += static_cast<std::size_t>(wrote);
                    at += static_cast<std::uint64_t>(wrote);
                }
                shared_.with([&](Shared& shared) { shared.progress.bytes += data.size(); });
            },
            by, stop);
    }

    const std::vector<Download>& downloads_;
    const std::vector<Piece>& pieces_;
    Sync<Shared>& shared_;
};

}  // namespace

void download_all(const MakeClient& make_client, const std::vector<Download>& downloads,
                  const std::function<void(const Progress&)>& on_progress, Deadline by,
                  const std::stop_token& stop) {
    if (downloads.empty()) return;
    make_folders(downloads.front().path.parent_path());
    check_room(downloads);
    make_files(downloads);
    const std::vector<Piece> pieces = cut(downloads);
    Sync<Shared> shared;
    shared.with([&](Shared& state) {
        state.progress.all_objects = downloads.size();
        for (const Download& download : downloads) {
            state.left.push_back(download.size);
            state.progress.all_bytes += download.size;
        }
        state.running = std::min(kWorkers, pieces.size());
    });
    TaskGroup workers;
    const std::size_t count = std::min(kWorkers, pieces.size());
    Fetcher fetcher(downloads, pieces, shared);
    std::stop_source halt;
    const std::stop_callback forward(stop, [&halt] { halt.request_stop(); });
    for (std::size_t i = 0; i < count; ++i) {
        workers.start("fetch", [&](const std::stop_token&) {
            Result<std::monostate> done = capture([&] {
                const std::unique_ptr<aws::S3Client> client = make_client();
                fetcher.work(*client, by, halt.get_token());
            });
            shared.with([&](Shared& state) {
                if (!done.ok() && !state.failure) {
                    state.failure = done.error();
                    halt.request_stop();
                }
                --state.running;
            });
            shared.notify();
        });
    }
    for (bool done = false; !done;) {
        Progress progress;
        done = shared.wait(
            Deadline::in(Meter::kEvery), {}, [](const Shared& state) { return state.running == 0; },
            [&](const Shared& state) {
                progress = state.progress;
                return state.running == 0;
            });
        on_progress(progress);
    }
    if (stop.stop_requested())
        throw_error(Code::cancelled, "Stopped", "the download was cancelled");
    const std::optional<Error> failure =
        shared.with([](const Shared& state) { return state.failure; });
    if (failure) throw *failure;
}

}  // namespace ty::agent
