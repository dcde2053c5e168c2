// SPDX-License-Identifier: Apache-2.0
// The launcher's side of hook/sitecustomize.py, which describes the conversation.
//
// One standby is made at a time, so that the training which goes on meanwhile loses one core at
// most. A slot waits, imports, is ready, or is cold with a reason. Nothing here throws to the
// caller: whatever goes wrong, the answer is a cold start.
#include "agent/launcher/warm/warm_pool.h"

#include "agent/launcher/warm/warm_message.h"
#include "agent/launcher/workers/workers.h"
#include "base/error.h"
#include "base/log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ty::agent {

std::span<const std::pair<std::string_view, std::string_view>> warm_hook_files();

namespace {

using namespace warm;

constexpr std::string_view kFdVariable = "TRAINYARD_WARM_FD";
constexpr std::string_view kTimer = "warm-pool";
constexpr std::string_view kStartTimer = "warm-pool-start";
constexpr std::string_view kReapTimer = "warm-pool-reap";
/// Above what a program opens: the numbers that its own files get are those of a cold start.
constexpr int kSocketNumber = 250;
constexpr seconds kProbeTime(30);
/// A large installation on a cold network file system takes minutes.
constexpr seconds kImportTime(600);
/// A standby answers within a millisecond; only an overloaded machine makes it wait, where a cold
/// start costs seconds.
constexpr milliseconds kAnswerTime(100);
constexpr std::size_t kLargestMessage = 1u << 17;

sys::Fd make_memory_file() {
    sys::Fd file(::memfd_create("trainyard-warm", MFD_CLOEXEC));
    if (!file.is_open()) throw_errno("make a memory file");
    return file;
}

/// The last line that a standby wrote: why it ended, more often than not.
std::string last_line(const sys::Fd& file) {
    std::array<char, 2048> buffer;
    const off_t size = ::lseek(file.get(), 0, SEEK_END);
    const off_t from = std::max<off_t>(0, size - static_cast<off_t>(buffer.size()));
    const ssize_t got = ::pread(file.get(), buffer.data(), buffer.size(), from);
    if (size <= 0 || got <= 0) return "";
    std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    while (text.ends_with('\n')) text.remove_suffix(1);
    return std::string(text.substr(text.rfind('\n') + 1));
}

/// A process of ours that waits for its script: killed, and reaped as far as it lets us.
struct Standby {
    pid_t pid = -1;
    sys::Fd socket;
    sys::Fd output;  ///< both streams, until the real ones come; kept by the process
    sys::Fd errors;
};

}  // namespace

struct WarmPool::State {
    enum class Phase { waiting, importing, ready, cold };
    struct Slot {
        WarmRecipe recipe;
        Phase phase = Phase::waiting;
        Standby standby;
        std::string why;
    };
    struct Probe {
        Standby standby;
        std::string program;
    };

    explicit State(sys::Poller& p) : poller(p) {}

    sys::Poller& poller;
    std::optional<sys::TempDir> folder;
    std::map<int, Slot> slots;
    std::optional<Probe> probe;
    std::map<std::string, std::string> probed;  ///< program and environment: why not, or empty
    std::vector<pid_t> dying;
    std::array<bool, 2> terminal = {::isatty(1) == 1, ::isatty(2) == 1};
    std::function<void()> on_settled;
    bool announced = true;

    void write_hook();
    std::vector<std::string> hooked(const WarmRecipe& recipe) const;
    Standby start(const WarmRecipe& recipe, const std::vector<std::string>& argv,
                  const std::string& message, std::function<void()> on_answer);
    void end(Standby& standby);
    void reap();
    void advance();
    void start_probe(const WarmRecipe& recipe, const std::string& key);
    void end_probe(const std::string& key, const std::string& why);
    void start_import(int rank, Slot& slot);
    void on_import(int rank);
    void give_up(Slot& slot, const std::string& why);
    void set_time_limit(seconds limit, std::function<void()> fn);
    bool settled() const;
};

// --- processes ---

/// Checked before each start: a cleaner of temporary files must not turn a standby into a worker
/// that nobody has asked for.
void WarmPool::State::write_hook() {
    if (!folder || !sys::fs::is_directory(folder->path())) folder.emplace("trainyard-warm");
    for (const auto& [name, content] : warm_hook_files()) {
        const sys::fs::path path = folder->path() / name;
        if (sys::fs::exists(path) && sys::read_file(path) == content) continue;
        sys::write_file(path, content);
    }
}

std::vector<std::string> WarmPool::State::hooked(const WarmRecipe& recipe) const {
    std::vector<std::string> env;
    for (const std::string& variable : recipe.env) {
        const std::string_view name = name_of(variable);
        if (name != "PYTHONPATH" && name != kFdVariable) env.push_back(variable);
    }
    const std::string old = value_of(recipe.env, "PYTHONPATH").value_or("");
    env.push_back(
        format("PYTHONPATH={}{}{}", folder->path().string(), old.empty() ? "" : ":", old));
    env.push_back(format("{}={}", kFdVariable, kSocketNumber));
    return env;
}

Standby WarmPool::State::start(const WarmRecipe& recipe, const std::vector<std::string>& argv,
                               const std::string& message, std::function<void()> on_answer) {
    if (message.size() > kLargestMessage)
        throw_error(Code::exhausted, "", "the command line is too long for a message");
    write_hook();
    std::array<int, 2> ends = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw_errno("make a socket pair");
    Standby standby;
    standby.socket = sys::Fd(ends[0]);
    const sys::Fd theirs(ends[1]);
    standby.output = make_memory_file();
    standby.errors = make_memory_file();
    if (!send_message(standby.socket.get(), message)) throw_errno("write to a socket pair");
    WorkerSpec spec;
    spec.local_rank = recipe.local_rank;
    spec.argv = argv;
    spec.env = hooked(recipe);
    spec.cpus = recipe.cpus;
    spec.stdout_fd = standby.output.get();
    spec.stderr_fd = standby.errors.get();
    standby.pid = spawn_worker(spec, -1, {{theirs.get(), kSocketNumber}});
    poller.add(standby.socket.get(), std::move(on_answer));
    return standby;
}

void WarmPool::State::end(Standby& standby) {
    if (standby.socket.is_open()) poller.remove(standby.socket.get());
    if (standby.pid > 0) {
        ::kill(standby.pid, SIGKILL);
        dying.push_back(standby.pid);
    }
    standby = Standby();
    reap();
}

void WarmPool::State::reap() {
    std::erase_if(dying, [](pid_t pid) {
        const pid_t got = ::waitpid(pid, nullptr, WNOHANG);
        return got == pid || (got < 0 && errno == ECHILD);
    });
    if (dying.empty()) return;
    poller.set_timer(std::string(kReapTimer), Deadline::in(milliseconds(100)), [this] { reap(); });
}

// --- one after another ---

bool WarmPool::State::settled() const {
    return std::ranges::all_of(slots, [](const auto& entry) {
        return entry.second.phase == Phase::ready || entry.second.phase == Phase::cold;
    });
}

void WarmPool::State::set_time_limit(seconds limit, std::function<void()> fn) {
    poller.set_timer(std::string(kTimer), Deadline::in(limit), std::move(fn));
}

void WarmPool::State::give_up(Slot& slot, const std::string& why) {
    slot.phase = Phase::cold;
    slot.why = why;
    log::debug("no standby interpreter", {{"local_rank", slot.recipe.local_rank}, {"why", why}});
    end(slot.standby);
}

/// Start what is next, or say that there is nothing left to do.
void WarmPool::State::advance() {
    poller.cancel_timer(std::string(kTimer));
    if (probe) return;
    for (auto& [rank, slot] : slots) {
        if (slot.phase == Phase::importing) return;
        if (slot.phase != Phase::waiting) continue;
        std::string key = slot.recipe.argv[0] + '\0';
        for (const std::string& variable : lasting(slot.recipe.env)) key += variable + '\0';
        const auto known = probed.find(key);
        try {
            if (known == probed.end()) return start_probe(slot.recipe, key);
            if (known->second.empty()) return start_import(rank, slot);
            give_up(slot, known->second);
        } catch (const std::exception& error) {
            give_up(slot, error.what());
        }
    }
    if (announced) return;
    announced = true;
    if (on_settled) on_settled();
}

/// An interpreter that does not run the hook (-I, -E, -S in a wrapper, something else under that
/// name) would run the script at once. So the hook has to report from the same command with a
/// program that does nothing, and from the very process that we have started.
void WarmPool::State::start_probe(const WarmRecipe& recipe, const std::string& key) {
    Probe next;
    next.standby = start(recipe, {recipe.argv[0], "-u", "-c", "pass"}, "probe", [this, key] {
        const std::optional<Answer> answer = receive_answer(probe->standby.socket.get());
        if (!answer) return;
        std::string why;
        const std::string expected = format("{} ", probe->standby.pid);
        if (answer->word != "hello") {
            why = answer->word == "cold" ? answer->detail
                                         : "the interpreter does not run sitecustomize";
        } else if (!answer->detail.starts_with(expected)) {
            why = "the interpreter is started by a wrapper that waits for it";
        }
        end_probe(key, why);
    });
    probe = std::move(next);
    set_time_limit(kProbeTime, [this, key] { end_probe(key, "the interpreter does not start"); });
}

void WarmPool::State::end_probe(const std::string& key, const std::string& why) {
    end(probe->standby);
    probe.reset();
    probed[key] = why;
    advance();
}

void WarmPool::State::start_import(int rank, Slot& slot) {
    const std::vector<std::string>& argv = slot.recipe.argv;
    const bool module = argv[2] == "-m";
    const std::optional<std::string> path = value_of(slot.recipe.env, "PYTHONPATH");
    std::vector<std::string> texts = {"import",
                                      module ? "module" : "script",
                                      module ? argv[3] : argv[2],
                                      path ? "=" + *path : "-",
                                      terminal[0] ? "1" : "0",
                                      terminal[1] ? "1" : "0"};
    texts.insert(texts.end(), argv.begin() + (module ? 3 : 2), argv.end());
    slot.standby = start(slot.recipe, argv, joined(texts), [this, rank] { on_import(rank); });
    slot.phase = Phase::importing;
    set_time_limit(kImportTime, [this, rank] {
        Slot& late = slots.at(rank);
        give_up(late, format("its imports take more than {} s", kImportTime.count()));
        advance();
    });
}

void WarmPool::State::on_import(int rank) {
    Slot& slot = slots.at(rank);
    const std::optional<Answer> answer = receive_answer(slot.standby.socket.get());
    if (!answer) return;
    if (answer->word == "ready" && slot.phase == Phase::importing) {
        slot.phase = Phase::ready;
        slot.why.clear();
    } else if (answer->word == "cold") {
        give_up(slot, answer->detail);
    } else {
        const std::string line = last_line(slot.standby.errors);
        give_up(slot, line.empty() ? "its standby has ended" : "its standby has ended: " + line);
    }
    advance();
}

// --- what the launcher sees ---

WarmPool::WarmPool(sys::Poller& poller) : state_(std::make_unique<State>(poller)) {}

WarmPool::~WarmPool() {
    discard_all();
    const Deadline patience = Deadline::in(seconds(1));
    while (!state_->dying.empty() && !patience.passed()) {
        sys::pause(Deadline::earlier(patience, Deadline::in(milliseconds(1))), {});
        state_->reap();
    }
    state_->poller.cancel_timer(std::string(kReapTimer));
}

void WarmPool::prepare(const std::vector<WarmRecipe>& recipes) {
    State& state = *state_;
    state.reap();
    std::map<int, State::Slot> old = std::exchange(state.slots, {});
    for (const WarmRecipe& recipe : recipes) {
        const auto it = old.find(recipe.local_rank);
        const bool same = it != old.end() && it->second.recipe.argv == recipe.argv &&
                          it->second.recipe.cpus == recipe.cpus &&
                          lasting(it->second.recipe.env) == lasting(recipe.env);
        // What could not be warmed gets another chance: the script may have been changed since.
        if (same && it->second.phase != State::Phase::cold) {
            state.slots.emplace(recipe.local_rank, std::move(it->second));
            old.erase(it);
            continue;
        }
        State::Slot slot;
        slot.recipe = recipe;
        slot.why = reason_against(recipe);
        if (!slot.why.empty()) slot.phase = State::Phase::cold;
        state.slots.insert_or_assign(recipe.local_rank, std::move(slot));
    }
    for (auto& [rank, slot] : old) state.end(slot.standby);
    state.announced = false;
    // From the poller, also when there is nothing to do: callers need not expect a call from here.
    state.poller.set_timer(std::string(kStartTimer), Deadline::in(milliseconds(0)),
                           [&state] { state.advance(); });
}

bool WarmPool::settled() const {
    return state_->settled();
}

int WarmPool::ready() const {
    return static_cast<int>(std::ranges::count_if(state_->slots, [](const auto& entry) {
        return entry.second.phase == State::Phase::ready;
    }));
}

std::string WarmPool::why_cold() const {
    for (const auto& [rank, slot] : state_->slots) {
        if (slot.phase == State::Phase::cold) return slot.why;
    }
    return "";
}

void WarmPool::on_settled(std::function<void()> fn) {
    state_->on_settled = std::move(fn);
}

std::optional<pid_t> WarmPool::take(int local_rank, const std::vector<std::string>& argv,
                                    const std::vector<std::string>& env, int stdout_fd,
                                    int stderr_fd, int cgroup_procs) {
    State& state = *state_;
    std::vector<int> fds = {stdout_fd >= 0 ? stdout_fd : 1, stderr_fd >= 0 ? stderr_fd : 2};
    // The next standbys tell their imports what these streams are.
    state.terminal = {::isatty(fds[0]) == 1, ::isatty(fds[1]) == 1};
    if (cgroup_procs >= 0) fds.push_back(cgroup_procs);
    const auto it = state.slots.find(local_rank);
    if (it == state.slots.end() || it->second.phase != State::Phase::ready) return std::nullopt;
    State::Slot& slot = it->second;
    std::string why;
    if (slot.recipe.argv != argv) {
        why = "another command line";
    } else if (lasting(slot.recipe.env) != lasting(env)) {
        why = "another environment";
    } else {
        const int socket = slot.standby.socket.get();
        const std::string go = "go" + std::string(1, '\0') + joined(env);
        if (go.size() > kLargestMessage || !send_message(socket, go, fds)) {
            why = "its standby cannot be reached";
        } else {
            sys::wait(socket, sys::Readiness::readable, Deadline::in(kAnswerTime));
            const Answer answer =
                receive_answer(socket).value_or(Answer{"late", "no answer in time"});
            // The script runs only now: one that did not answer in time never starts.
            if (answer.word == "prepared" && send_message(socket, "run")) {
                state.poller.remove(socket);
                const pid_t pid = std::exchange(slot.standby.pid, -1);
                state.slots.erase(it);
                return pid;
            }
            why = answer.detail.empty() ? "its standby has ended" : answer.detail;
        }
    }
    state.give_up(slot, why);
    return std::nullopt;
}

void WarmPool::discard_all() {
    State& state = *state_;
    state.poller.cancel_timer(std::string(kTimer));
    state.poller.cancel_timer(std::string(kStartTimer));
    if (state.probe) state.end(state.probe->standby);
    state.probe.reset();
    for (auto& [rank, slot] : state.slots) state.end(slot.standby);
    state.slots.clear();
    state.announced = true;
}

std::vector<pid_t> WarmPool::pids() const {
    std::vector<pid_t> result = state_->dying;
    if (state_->probe) result.push_back(state_->probe->standby.pid);
    for (const auto& [rank, slot] : state_->slots) {
        if (slot.standby.pid > 0) result.push_back(slot.standby.pid);
    }
    return result;
}

}  // namespace ty::agent
