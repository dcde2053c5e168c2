// SPDX-License-Identifier: Apache-2.0
#include "engine/local/trash.h"

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"

#include <cerrno>
#include <cstdio>

#include <sys/stat.h>

namespace ty::engine {

namespace fs = std::filesystem;

namespace {

constexpr seconds kKillLimit{5};

/// Give the owner all rights on every folder below. Links are not followed.
void open_up(const fs::path& path) {
    struct stat info = {};
    if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return;
    ::chmod(path.c_str(), 0700);
    std::error_code failed;
    for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed))
        open_up(it->path());
}

}  // namespace

bool remove_tree(const fs::path& path) {
    std::error_code failed;
    fs::remove_all(path, failed);
    if (!failed) return true;
    open_up(path);
    fs::remove_all(path, failed);
    return !failed;
}

Trash::Trash(fs::path dir) : dir_(std::move(dir)) {
    std::error_code failed;
    fs::create_directories(dir_, failed);
    if (failed) throw errno_error(failed.value(), "create folder " + dir_.string());
    work_.with([&](std::deque<Work>& work) {
        for (fs::directory_iterator it(dir_, failed), end; !failed && it != end;
             it.increment(failed))
            work.push_back({it->path(), {}});
    });
    tasks_.start("trash", [this](std::stop_token stop) { run(stop); });
}

Trash::~Trash() {
    tasks_.stop_and_join();
}

void Trash::take(const fs::path& folder, std::vector<Leftovers> leftovers) {
    SystemIds ids;
    const fs::path away = dir_ / ids.token(16);
    if (::rename(folder.c_str(), away.c_str()) != 0) {
        if (errno != ENOENT) throw_errno("move {} to {}", folder.string(), away.string());
        if (leftovers.empty()) return;
    }
    work_.with([&](std::deque<Work>& work) { work.push_back({away, std::move(leftovers)}); });
    work_.notify();
}

void Trash::run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        Work next;
        const bool got = work_.wait(
            Deadline::never(), stop, [](const std::deque<Work>& work) { return !work.empty(); },
            [&next](std::deque<Work>& work) {
                if (work.empty()) return false;
                next = std::move(work.front());
                work.pop_front();
                return true;
            });
        if (!got) continue;
        const int killed = kill_leftovers(next.leftovers, Deadline::in(kKillLimit));
        if (killed > 0)
            log::warning("killed processes an agent left behind",
                         {{"folder", next.leftovers.front().folder}, {"count", killed}});
        if (!remove_tree(next.path))
            log::warning("a run folder could not be removed completely; delete it by hand",
                         {{"folder", next.path.string()}});
    }
}

}  // namespace ty::engine
