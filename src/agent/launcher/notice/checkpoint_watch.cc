// SPDX-License-Identifier: Apache-2.0
// Evidence from inotify events, or from comparing listings where there is no inotify. Either way
// the events only say where to look: the decision is made in one place, decide().
#include "agent/launcher/notice/checkpoint_watch.h"

#include "agent/launcher/notice/checkpoint_file.h"
#include "agent/launcher/notice/inotify.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include <nlohmann/json.hpp>

#include <sys/inotify.h>
#include <unistd.h>

namespace ty::agent {

namespace {

namespace fs = sys::fs;

constexpr milliseconds kQuiet{50};         ///< after a plain close
constexpr milliseconds kPatience{2000};    ///< for a file made since, open and not growing
constexpr milliseconds kPollInterval{20};  ///< without inotify
constexpr std::size_t kMaxFolders = 4096;
constexpr std::size_t kMaxFiles = 100'000;
constexpr std::uint32_t kMask = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM |
                                IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

}  // namespace

struct CheckpointWatch::State {
    State(sys::Poller& poller_in, fs::path folder_in, fs::path request_in, Mode mode_in)
        : poller(poller_in),
          folder(std::move(folder_in)),
          request(std::move(request_in)),
          mode(mode_in),
          timer(format("checkpoint watch {}", static_cast<const void*>(this))) {}

    /// A file made since the question and not closed yet; held against evidence while it grows.
    struct Writing {
        Stamp stamp;
        Deadline patience;
    };

    sys::Poller& poller;
    const fs::path folder, request;
    const Mode mode;
    const std::string timer;

    // ---- of one question; cleared by stop()
    std::function<void(const std::string&)> on_evidence;
    std::optional<Inotify> inotify;
    bool polling = false;
    bool request_written = false;
    std::map<int, fs::path> folders;  ///< watch -> folder of the checkpoint tree
    std::set<int> outer;              ///< watches above it, and the request file's folder
    std::map<fs::path, Writing> writing;
    std::map<fs::path, Stamp> closed;  ///< candidates after plain writing
    std::optional<fs::path> last_closed;
    std::optional<fs::path> renamed;  ///< candidate that needs no quiet
    Deadline quiet = Deadline::never();
    std::map<fs::path, Stamp> listing;  ///< polling: what was there a moment ago

    void start(std::int64_t generation, milliseconds deadline, const std::string& why);
    void stop();
    void write_request(std::int64_t generation, milliseconds deadline, const std::string& why);
    void watch_tree(const fs::path& at, bool is_new);
    void watch_outer(fs::path at);
    void watch_folder();
    void start_polling(const char* why);
    void list(std::map<fs::path, Stamp>& into) const;
    void compare_listings();
    void on_events();
    void on_tree_event(const fs::path& parent, const Inotify::Event& event);
    void note_found(const fs::path& path);
    void note_closed(const fs::path& path);
    void note_renamed(const fs::path& path);
    void forget(const fs::path& path);
    bool something_is_being_written();
    void look_again_in(milliseconds delay);
    void decide();
    void finish(const std::string& what);
    Proof proof(const fs::path& path) const {
        return path == request ? Proof::nothing : proof_of(path.lexically_relative(folder));
    }
};

void CheckpointWatch::State::start(std::int64_t generation, milliseconds deadline,
                                   const std::string& why) {
    // Watching comes first: whoever answers the request must be seen.
    if (!request.empty()) {
        std::error_code ignored;  // write_request() reports it
        fs::create_directories(request.parent_path(), ignored);
    }
    if (mode == Mode::automatic) inotify.emplace();
    if (mode == Mode::polling)
        start_polling("asked to");
    else if (!inotify->is_open())
        start_polling("no inotify instance");
    if (!polling) {
        poller.add(inotify->fd(), [this] { on_events(); });
        if (!request.empty()) {
            const int watch = inotify->add(request.parent_path(), kMask);
            if (watch < 0)
                start_polling("the request's folder cannot be watched");
            else
                outer.insert(watch);
        }
    }
    if (!polling) watch_folder();
    write_request(generation, deadline, why);
    look_again_in(kPollInterval);  // for what came while the watches were set up
}

void CheckpointWatch::State::stop() {
    poller.cancel_timer(timer);
    if (inotify && inotify->is_open()) poller.remove(inotify->fd());
    inotify.reset();
    if (request_written) ::unlink(request.c_str());
    request_written = polling = false;
    folders.clear();
    outer.clear();
    writing.clear();
    closed.clear();
    last_closed.reset();
    renamed.reset();
    quiet = Deadline::never();
    listing.clear();
    on_evidence = nullptr;
}

/// Whole at once for readers, but not durable: the question dies with the machine.
void CheckpointWatch::State::write_request(std::int64_t generation, milliseconds deadline,
                                           const std::string& why) {
    if (request.empty()) return;
    Json document = Json::object();
    document["generation"] = generation;
    document["deadline_seconds"] = static_cast<double>(deadline.count()) / 1000;
    document["why"] = why;
    const fs::path draft = request.parent_path() / ("." + request.filename().string() + ".tmp");
    try {
        sys::write_file(draft, dump_json(document) + "\n");
        fs::rename(draft, request);
        request_written = true;
    } catch (const std::exception& error) {
        // Scripts that only catch the signal can still answer.
        log::warning("the checkpoint request cannot be written", {{"error", error.what()}});
    }
}

/// The checkpoint tree, or where its first missing folder will appear.
void CheckpointWatch::State::watch_folder() {
    if (folder.empty()) return;
    std::error_code ignored;
    if (fs::is_directory(folder, ignored)) {
        watch_tree(folder, false);
        return;
    }
    watch_outer(folder.parent_path());
}

void CheckpointWatch::State::watch_outer(fs::path at) {
    while (true) {
        const int watch = inotify->add(at.empty() ? fs::path(".") : at, kMask);
        if (watch >= 0) {
            outer.insert(watch);
            break;
        }
        if (!at.has_parent_path() || at.parent_path() == at) {
            start_polling("no folder above the checkpoint folder can be watched");
            return;
        }
        at = at.parent_path();
    }
    // It may have come between the look and the watch.
    std::error_code ignored;
    if (fs::is_directory(folder, ignored)) watch_tree(folder, true);
}

/// `is_new`: made since the question, so that what is in it already counts.
void CheckpointWatch::State::watch_tree(const fs::path& at, bool is_new) {
    std::vector<fs::path> todo{at};
    while (!todo.empty() && !polling) {
        const fs::path next = std::move(todo.back());
        todo.pop_back();
        const int watch = inotify->add(next, kMask);
        if (watch < 0) {
            if (errno == ENOENT || errno == ENOTDIR) continue;  // gone again
            start_polling("a folder cannot be watched");
            return;
        }
        folders[watch] = next;
        if (folders.size() > kMaxFolders) {
            start_polling("too many folders");
            return;
        }
        std::error_code failed;
        fs::directory_iterator entries(next, fs::directory_options::skip_permission_denied, failed);
        for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
            std::error_code unknown;
            if (entries->is_symlink(unknown)) continue;
            if (entries->is_directory(unknown))
                todo.push_back(entries->path());
            else if (is_new)
                note_found(entries->path());
        }
    }
}

void CheckpointWatch::State::start_polling(const char* why) {
    if (polling) return;
    log::debug("checkpoint folder is polled", {{"folder", folder.string()}, {"why", why}});
    polling = true;
    list(listing);
    look_again_in(kPollInterval);
}

void CheckpointWatch::State::list(std::map<fs::path, Stamp>& into) const {
    if (folder.empty()) return;
    std::error_code failed;
    fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied,
                                             failed);
    for (; !failed && entries != fs::recursive_directory_iterator() && into.size() < kMaxFiles;
         entries.increment(failed)) {
        const std::optional<Stamp> stamp = stamp_of(entries->path());
        if (stamp && stamp->is_regular) into.emplace(entries->path(), *stamp);
    }
}

/// A known inode under a new name is a rename; anything else that differs was written.
void CheckpointWatch::State::compare_listings() {
    std::map<fs::path, Stamp> now;
    list(now);
    std::map<ino_t, const Stamp*> before;
    for (const auto& [path, stamp] : listing) before.emplace(stamp.inode, &stamp);
    for (const auto& [path, stamp] : now) {
        const auto old = listing.find(path);
        if (old != listing.end() && old->second.same_content(stamp)) continue;
        const auto moved = before.find(stamp.inode);
        if (moved != before.end() && moved->second->same_content(stamp))
            note_renamed(path);
        else
            note_closed(path);
    }
    for (const auto& [path, stamp] : listing) {
        if (!now.contains(path)) forget(path);
    }
    listing = std::move(now);
}

void CheckpointWatch::State::on_events() {
    for (const Inotify::Event& event : inotify->read()) {
        if ((event.mask & IN_Q_OVERFLOW) != 0) {
            // What was missed is not known: everything that differs from now on still counts, and a
            // checkpoint is rarely one event.
            start_polling("too many events at once");
            continue;
        }
        const auto parent = folders.find(event.watch);
        if (parent == folders.end()) continue;
        const bool lost = (event.mask & IN_IGNORED) != 0 ||
                          ((event.mask & IN_MOVE_SELF) != 0 && parent->second == folder);
        if (lost)
            folders.erase(parent);
        else if (!event.name.empty())
            on_tree_event(parent->second, event);
    }
    const bool has_root = std::any_of(folders.begin(), folders.end(),
                                      [this](const auto& entry) { return entry.second == folder; });
    if (!has_root && !polling && !folder.empty()) watch_outer(folder.parent_path());
    decide();
}

void CheckpointWatch::State::on_tree_event(const fs::path& parent, const Inotify::Event& event) {
    const fs::path path = parent / event.name;
    const bool is_folder = (event.mask & IN_ISDIR) != 0;
    if ((event.mask & (IN_DELETE | IN_MOVED_FROM)) != 0) {
        forget(path);
        return;
    }
    if (is_folder) {
        if ((event.mask & IN_MOVED_TO) != 0) note_renamed(path);
        watch_tree(path, (event.mask & IN_CREATE) != 0);
        return;
    }
    if ((event.mask & IN_MOVED_TO) != 0) {
        note_renamed(path);
    } else if ((event.mask & IN_CLOSE_WRITE) != 0) {
        note_closed(path);
    } else if ((event.mask & IN_CREATE) != 0) {
        const std::optional<Stamp> stamp = stamp_of(path);
        if (!stamp || !stamp->is_regular || is_log(event.name)) return;
        if (stamp->links > 1)
            note_renamed(path);  // link(2): nobody will close it
        else
            writing.insert_or_assign(path, Writing{*stamp, Deadline::in(kPatience)});
    }
}

/// In a new folder, before it was watched: its end may have been missed, or may be yet to come.
void CheckpointWatch::State::note_found(const fs::path& path) {
    const std::optional<Stamp> stamp = stamp_of(path);
    if (stamp && stamp->is_regular && is_open_for_writing(path))
        writing.insert_or_assign(path, Writing{*stamp, Deadline::in(kPatience)});
    else
        note_closed(path);
}

void CheckpointWatch::State::note_closed(const fs::path& path) {
    writing.erase(path);
    const std::optional<Stamp> stamp = stamp_of(path);
    if (!stamp || !stamp->is_regular || is_log(path.filename().native())) return;
    // Temporary files prove nothing, but while they come and go it is not quiet.
    if (closed.empty() && proof(path) == Proof::nothing) return;
    quiet = Deadline::in(kQuiet);
    if (proof(path) == Proof::nothing) return;
    closed.insert_or_assign(path, *stamp);
    last_closed = path;
}

void CheckpointWatch::State::note_renamed(const fs::path& path) {
    writing.erase(path);
    if (proof(path) != Proof::nothing) renamed = path;
}

void CheckpointWatch::State::forget(const fs::path& path) {
    writing.erase(path);
    closed.erase(path);
    if (last_closed == path) last_closed.reset();
    if (renamed == path) renamed.reset();
}

bool CheckpointWatch::State::something_is_being_written() {
    for (auto it = writing.begin(); it != writing.end();) {
        const std::optional<Stamp> now = stamp_of(it->first);
        if (now && !now->same_content(it->second.stamp))
            it->second = Writing{*now, Deadline::in(kPatience)};
        // One that is left open for good holds up nobody.
        it = !now || it->second.patience.passed() ? writing.erase(it) : std::next(it);
    }
    return !writing.empty();
}

void CheckpointWatch::State::look_again_in(milliseconds delay) {
    poller.set_timer(timer, Deadline::in(delay), [this] {
        if (polling) compare_listings();
        decide();
    });
}

/// The last statement of every callback: on_evidence may end this object.
void CheckpointWatch::State::decide() {
    if (!on_evidence) return;
    if (request_written && !stamp_of(request)) {
        request_written = false;
        finish(request.string() + " was removed");
        return;
    }
    const bool busy = something_is_being_written();
    if (renamed && !busy) {
        finish(renamed->string());
        return;
    }
    for (auto& [path, stamp] : closed) {
        const std::optional<Stamp> now = stamp_of(path);
        if (!now || now->same_content(stamp)) continue;
        stamp = *now;
        quiet = Deadline::in(kQuiet);
    }
    if (!closed.empty() && !busy && quiet.passed()) {
        finish((last_closed ? *last_closed : closed.begin()->first).string());
        return;
    }
    if (polling)
        look_again_in(kPollInterval);
    else if (!closed.empty() || renamed)
        look_again_in(busy ? kQuiet : quiet.left());
}

void CheckpointWatch::State::finish(const std::string& what) {
    const auto report = std::move(on_evidence);
    stop();
    report(what);
}

CheckpointWatch::CheckpointWatch(sys::Poller& poller, fs::path folder, fs::path request_file,
                                 Mode mode)
    : state_(std::make_unique<State>(poller, folder.lexically_normal(),
                                     request_file.lexically_normal(), mode)) {}

CheckpointWatch::~CheckpointWatch() {
    state_->stop();
}

void CheckpointWatch::ask(std::int64_t generation, milliseconds deadline, const std::string& why,
                          std::function<void(const std::string&)> on_evidence) {
    state_->stop();
    state_->on_evidence = std::move(on_evidence);
    state_->start(generation, deadline, why);
}

void CheckpointWatch::cancel() {
    state_->stop();
}

bool CheckpointWatch::asking() const {
    return state_->on_evidence != nullptr;
}

}  // namespace ty::agent
