// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/logs/logs.h"
#include "agent/launcher/logs/console.h"
#include "agent/launcher/logs/tail.h"
#include "agent/launcher/options/macros.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr milliseconds kTurn{20};            // what one drain() may take of the launcher's thread
constexpr milliseconds kLastPatience{1000};  // a new generation must not wait for a console
constexpr milliseconds kStallLimit{10000};   // flush(): a console that takes nothing for so long
constexpr std::string_view kNowhere = "/dev/null";

enum class Stream { out, err };

/// A fresh private folder <parent>/<prefix><random>, as mkdtemp(3) makes them.
sys::fs::path make_unique_folder(const sys::fs::path& parent, const std::string& prefix) {
    for (int tries = 0; tries < 100; ++tries) {
        const sys::fs::path path = parent / (prefix + SystemIds().token(8));
        if (::mkdir(path.c_str(), 0700) == 0) return path;
        if (errno != EEXIST) throw_errno("create the log folder {}", path.string());
    }
    throw_error(Code::internal, "LogFolder", "no free name for a log folder in {}",
                parent.string());
}

sys::fs::path temporary_folder() {
    std::error_code failed;
    const sys::fs::path path = sys::fs::temp_directory_path(failed);
    return failed ? sys::fs::path("/tmp") : path;
}

/// attempt_<n>; a further visit to the same number gets a folder of its own.
sys::fs::path make_attempt_folder(const sys::fs::path& run, int attempt) {
    for (int visit = 1; visit < 100000; ++visit) {
        const std::string name =
            visit == 1 ? format("attempt_{}", attempt) : format("attempt_{}.{}", attempt, visit);
        const sys::fs::path path = run / name;
        if (::mkdir(path.c_str(), 0777) == 0) return path;
        if (errno != EEXIST) throw_errno("create the log folder {}", path.string());
    }
    throw_error(Code::internal, "LogFolder", "too many folders for attempt {} in {}", attempt,
                run.string());
}

/// What one worker's streams are connected to.
struct WorkerStreams {
    struct One {
        sys::Fd fd;          ///< for the worker; closed: it inherits ours
        sys::fs::path path;  ///< empty: no file
    };
    One out, err;
    sys::fs::path error_file;
};

/// The teed streams of one generation; lives until all of it is on the console.
struct Attempt {
    struct Source {
        Stream stream = Stream::out;
        Tail tail;
        bool at_end = false;
    };
    std::vector<Source> sources;
    sys::Fd filtered_out, filtered_err;
    bool over = false;
};

}  // namespace

struct LaunchLogs::State {
    explicit State(const LaunchOptions& all) : options(all) {}

    LaunchOptions options;
    bool nowhere = false;  ///< --log-dir /dev/null
    sys::fs::path base, run;
    std::vector<WorkerStreams> workers;
    std::vector<std::unique_ptr<Attempt>> attempts;
    std::array<Console, 2> consoles{Console(STDOUT_FILENO), Console(STDERR_FILENO)};
    std::vector<char> buffer;
    LineCutter::Out text;

    Console& console(Stream stream) { return consoles[stream == Stream::out ? 0 : 1]; }
    const sys::fs::path& run_folder();
    bool is_hidden(int local_rank) const {
        return !options.local_ranks_filter.empty() &&
               !options.local_ranks_filter.contains(local_rank);
    }
    WorkerStreams::One open_stream(int local_rank, const sys::fs::path& folder, Stream stream);
    void open_tails(Attempt& attempt, const sys::fs::path& folder, int first_rank,
                    const std::string& host);
    std::string prefix(int local_rank, int first_rank, const std::string& host) const;
    bool push_consoles();
    bool read_once(Attempt& attempt, Attempt::Source& source, bool last);
    bool turn(bool last);
    bool is_done() const;
    void forget_finished();
};

const sys::fs::path& LaunchLogs::State::run_folder() {
    if (run.empty() && !nowhere) {
        if (base.empty()) base = make_unique_folder(temporary_folder(), "torchelastic_");
        sys::fs::create_directories(base);
        run = make_unique_folder(base, replace_all(options.rdzv_id, "/", "_") + "_");
    }
    return run;
}

std::string LaunchLogs::State::prefix(int local_rank, int first_rank,
                                      const std::string& host) const {
    if (options.log_line_prefix_template.empty()) {
        return format("[{}{}]:", options.role, local_rank);
    }
    return substitute(options.log_line_prefix_template,
                      {{"role_name", options.role},
                       {"local_rank", format("{}", local_rank)},
                       {"rank", format("{}", first_rank + local_rank)},
                       {"hostname", host}});
}

WorkerStreams::One LaunchLogs::State::open_stream(int local_rank, const sys::fs::path& folder,
                                                  Stream stream) {
    const int bit = stream == Stream::out ? 1 : 2;
    WorkerStreams::One one;
    if (((options.redirects.of(local_rank) | options.tee.of(local_rank)) & bit) != 0) {
        one.path = folder / (stream == Stream::out ? "stdout.log" : "stderr.log");
        // Appending: what several processes of a worker write stays apart.
        one.fd = sys::open_write(one.path, O_TRUNC | O_APPEND, 0666);
    } else if (is_hidden(local_rank)) {
        one.fd = sys::open_write(kNowhere, 0);
    }
    return one;
}

void LaunchLogs::State::open_tails(Attempt& attempt, const sys::fs::path& folder, int first_rank,
                                   const std::string& host) {
    const auto& out_filters = options.duplicate_stdout_filters;
    const auto& err_filters = options.duplicate_stderr_filters;
    if (!out_filters.empty()) {
        attempt.filtered_out = sys::open_write(folder / "filtered_stdout.log", O_TRUNC, 0666);
    }
    if (!err_filters.empty()) {
        attempt.filtered_err = sys::open_write(folder / "filtered_stderr.log", O_TRUNC, 0666);
    }
    for (int rank = 0; rank < options.workers; ++rank) {
        const WorkerStreams& worker = workers[static_cast<std::size_t>(rank)];
        const int bits = is_hidden(rank) ? 0 : options.tee.of(rank);
        const std::string start = prefix(rank, first_rank, host);
        if ((bits & 1) != 0) {
            attempt.sources.push_back(
                {Stream::out, Tail(worker.out.path, LineCutter(start, out_filters))});
        }
        if ((bits & 2) != 0) {
            attempt.sources.push_back(
                {Stream::err, Tail(worker.err.path, LineCutter(start, err_filters))});
        }
    }
}

bool LaunchLogs::State::push_consoles() {
    bool moved = false;
    for (Console& console : consoles) moved = console.push() || moved;
    return moved;
}

bool LaunchLogs::State::read_once(Attempt& attempt, Attempt::Source& source, bool last) {
    Console& target = console(source.stream);
    if (source.at_end || !target.is_idle()) return false;
    text.console.clear();
    text.filtered.clear();
    const bool more = source.tail.read(buffer, last, text);
    source.at_end = last && !more;
    if (!text.filtered.empty()) {
        const sys::Fd& file =
            source.stream == Stream::out ? attempt.filtered_out : attempt.filtered_err;
        try {
            sys::write_all(file.get(), text.filtered);
        } catch (const Error& error) {
            log::warning("lines for the filtered log are lost", {{"why", error.what()}});
        }
    }
    if (!text.console.empty()) target.put(text.console);
    return more || !text.console.empty();
}

/// One chunk of every stream that has something and may write it. A generation's lines come after
/// all of its predecessor's.
bool LaunchLogs::State::turn(bool last) {
    bool moved = push_consoles();
    std::array<bool, 2> busy{};
    for (const auto& attempt : attempts) {
        std::array<bool, 2> unfinished = busy;
        for (Attempt::Source& source : attempt->sources) {
            const std::size_t stream = source.stream == Stream::out ? 0 : 1;
            if (busy[stream]) continue;
            moved = read_once(*attempt, source, last || attempt->over) || moved;
            unfinished[stream] = unfinished[stream] || !source.at_end;
        }
        busy = unfinished;
    }
    return moved;
}

bool LaunchLogs::State::is_done() const {
    for (const auto& attempt : attempts) {
        for (const Attempt::Source& source : attempt->sources) {
            if (!source.at_end) return false;
        }
    }
    return consoles[0].is_idle() && consoles[1].is_idle();
}

void LaunchLogs::State::forget_finished() {
    std::erase_if(attempts, [](const std::unique_ptr<Attempt>& attempt) {
        return attempt->over &&
               std::all_of(attempt->sources.begin(), attempt->sources.end(),
                           [](const Attempt::Source& source) { return source.at_end; });
    });
}

LaunchLogs::LaunchLogs(const LaunchOptions& options) : state_(std::make_unique<State>(options)) {
    state_->nowhere = options.log_dir == kNowhere;
    if (state_->nowhere || options.log_dir.empty()) return;
    state_->base = sys::fs::absolute(options.log_dir);
    std::error_code failed;
    sys::fs::create_directories(state_->base, failed);
    if (failed || !sys::fs::is_directory(state_->base)) {
        throw_error(Code::invalid, "LogFolder", "--log-dir {} cannot be used as a folder: {}",
                    options.log_dir, failed ? failed.message() : "it is a file");
    }
}

LaunchLogs::~LaunchLogs() {
    try {
        flush();
    } catch (const std::exception& error) {
        log::warning("the workers' last lines are lost", {{"why", error.what()}});
    }
}

void LaunchLogs::begin(int attempt, int first_rank, const std::string& host) {
    State& state = *state_;
    for (const auto& earlier : state.attempts) earlier->over = true;
    state.forget_finished();
    state.workers.clear();
    state.workers.resize(static_cast<std::size_t>(state.options.workers));
    if (state.nowhere) return;
    const sys::fs::path folder = make_attempt_folder(state.run_folder(), attempt);
    for (int rank = 0; rank < state.options.workers; ++rank) {
        WorkerStreams& worker = state.workers[static_cast<std::size_t>(rank)];
        const sys::fs::path own = folder / format("{}", rank);
        if (::mkdir(own.c_str(), 0777) != 0) throw_errno("create the log folder {}", own.string());
        worker.out = state.open_stream(rank, own, Stream::out);
        worker.err = state.open_stream(rank, own, Stream::err);
        worker.error_file = own / "error.json";
    }
    state.attempts.push_back(std::make_unique<Attempt>());
    state.open_tails(*state.attempts.back(), folder, first_rank, host);
}

int LaunchLogs::stdout_fd(int local_rank) const {
    return state_->workers.at(static_cast<std::size_t>(local_rank)).out.fd.get();
}

int LaunchLogs::stderr_fd(int local_rank) const {
    return state_->workers.at(static_cast<std::size_t>(local_rank)).err.fd.get();
}

sys::fs::path LaunchLogs::error_file(int local_rank) const {
    return state_->workers.at(static_cast<std::size_t>(local_rank)).error_file;
}

sys::fs::path LaunchLogs::stderr_path(int local_rank) const {
    return state_->workers.at(static_cast<std::size_t>(local_rank)).err.path;
}

sys::fs::path LaunchLogs::run_folder() const {
    return state_->run_folder();
}

bool LaunchLogs::has_tee() const {
    const StreamMap& tee = state_->options.tee;
    for (int rank = 0; rank < state_->options.workers; ++rank) {
        if (tee.of(rank) != 0 && !state_->is_hidden(rank) && !state_->nowhere) return true;
    }
    return false;
}

long long LaunchLogs::bytes_written(int local_rank) const {
    const auto index = static_cast<std::size_t>(local_rank);
    if (index >= state_->workers.size()) return -1;
    long long total = -1;
    for (const WorkerStreams::One* one :
         {&state_->workers[index].out, &state_->workers[index].err}) {
        struct stat facts {};
        if (one->path.empty() || ::fstat(one->fd.get(), &facts) != 0) continue;
        total = std::max(total, 0LL) + facts.st_size;
    }
    return total;
}

bool LaunchLogs::drain(bool last) {
    State& state = *state_;
    const Deadline turn_end = Deadline::in(last ? kLastPatience : kTurn);
    bool moved = false;
    while (!state.is_done()) {
        if (state.turn(last)) {
            moved = true;
        } else if (!last || state.is_done()) {
            break;
        } else {
            for (const Console& console : state.consoles) console.wait(turn_end.left());
        }
        if (turn_end.passed()) break;
    }
    state.forget_finished();
    return moved;
}

void LaunchLogs::flush() {
    State& state = *state_;
    Deadline stalled = Deadline::in(kStallLimit);
    while (!state.is_done() && !stalled.passed()) {
        if (state.turn(true)) {
            stalled = Deadline::in(kStallLimit);
        } else {
            for (const Console& console : state.consoles) console.wait(milliseconds(100));
        }
    }
}

}  // namespace ty::agent
