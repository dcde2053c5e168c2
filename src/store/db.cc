// SPDX-License-Identifier: Apache-2.0
// Group commit and the reader pool.
//
// Writers queue their closure. Whoever finds nobody leading becomes the leader: it takes the whole
// queue, runs it in one transaction, commits once (one fdatasync) and wakes each caller with its
// own outcome; whoever arrived meanwhile forms the next group, led by the first of them. So one
// caller pays one sync per write, and many callers share it.
#include "base/sync.h"
#include "store/connection.h"
#include "store/migrate.h"

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <deque>
#include <exception>
#include <thread>

namespace ty::store {
namespace {

constexpr auto kReaderWait = seconds(30);

/// One caller of write(), waiting. Shared with the leader, which may outlast the caller's wait.
struct Waiting {
    enum class Phase { queued, leading, done };
    struct State {
        Phase phase = Phase::queued;
        std::exception_ptr failure;
    };

    explicit Waiting(const std::function<void(Tx&)>& f) : fn(f) {}
    const std::function<void(Tx&)>& fn;  // lives on the caller's stack until phase is done
    std::exception_ptr failure;          // the leader's until it says done
    Sync<State> state;
};

using Group = std::deque<std::shared_ptr<Waiting>>;

struct Queue {
    Group waiting;
    bool led = false;
    std::thread::id leader;
};

/// SQLite ended the transaction by itself; `cause` is what the closure let through, if anything.
[[noreturn]] void throw_rolled_back(const std::exception_ptr& cause) {
    if (cause) std::rethrow_exception(cause);
    throw_error(Code::exhausted, "DiskFull", "the write was rolled back by the database");
}

/// One exception object per thread: callers add context to what they catch.
std::exception_ptr copy_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return std::make_exception_ptr(Error(error));
    } catch (...) {
        return failure;
    }
}

/// Gives the database file its mode before SQLite creates it with the umask's; -wal and -shm
/// follow.
void create_private(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) throw_errno("open database {}", path.native());
    ::close(fd);
}

/// The file's own name must survive a power cut, not only its content.
void sync_folder_of(const std::filesystem::path& path) {
    const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) throw_errno("open {}", folder.native());
    ::fsync(fd);
    ::close(fd);
}

}  // namespace

struct Db::Impl {
    Impl(const std::filesystem::path& p, DbOptions o)
        : path(p), options(o), writer(p, Connection::Mode::read_write) {}

    void prepare_writer();
    void lead(const std::shared_ptr<Waiting>& self);
    void run_group(const Group& group);
    void run_one(Waiting& one, bool alone);
    void hand_over();

    // Immutable.
    const std::filesystem::path path;
    const DbOptions options;

    // The leader's alone (Queue::led).
    Connection writer;

    // Own synchronisation.
    Sync<Queue> queue;
    struct Pool {
        std::vector<std::unique_ptr<Connection>> idle;
        std::size_t open = 0;
    };
    mutable Sync<Pool> readers;
};

void Db::Impl::prepare_writer() {
    writer.execute("pragma journal_mode = wal");
    writer.execute(options.durability == DbOptions::Durability::full
                       ? "pragma synchronous = full"
                       : "pragma synchronous = normal");
    writer.execute(
        "pragma foreign_keys = on; pragma temp_store = memory; pragma cache_size = -8000;"
        "pragma journal_size_limit = 67108864; pragma trusted_schema = off");
    migrate(writer, embedded_migrations());
    sync_folder_of(path);
}

void Db::Impl::run_one(Waiting& one, bool alone) {
    if (!alone) writer.execute("savepoint one");
    try {
        one.fn(writer);
        if (!alone) writer.execute("release one");
    } catch (...) {
        one.failure = std::current_exception();
        // A full disk may have ended the whole transaction; run_group() sees to that.
        if (writer.in_transaction() && !alone) writer.execute("rollback to one; release one");
    }
}

void Db::Impl::run_group(const Group& group) {
    std::exception_ptr failure;
    try {
        writer.execute("begin immediate");
        for (const auto& one : group) {
            run_one(*one, group.size() == 1);
            if (!writer.in_transaction()) throw_rolled_back(one->failure);
        }
        if (group.size() == 1 && group.front()->failure) {
            writer.roll_back();
            return;
        }
        writer.execute("commit");
        return;
    } catch (...) {
        failure = std::current_exception();
    }
    writer.roll_back();
    for (const auto& one : group)
        if (!one->failure) one->failure = copy_of(failure);
}

void Db::Impl::hand_over() {
    std::shared_ptr<Waiting> next;
    queue.with([&](Queue& q) {
        q.leader = {};
        q.led = !q.waiting.empty();
        if (q.led) next = q.waiting.front();
    });
    if (!next) return;
    next->state.with([](Waiting::State& s) { s.phase = Waiting::Phase::leading; });
    next->state.notify();
}

void Db::Impl::lead(const std::shared_ptr<Waiting>& self) {
    Group group;
    queue.with([&](Queue& q) {
        group.swap(q.waiting);
        q.leader = std::this_thread::get_id();
    });
    run_group(group);
    // The next leader starts its disk work while we wake ours.
    hand_over();
    for (const auto& one : group) {
        if (one == self) continue;
        one->state.with([&](Waiting::State& s) {
            s.failure = std::move(one->failure);  // its thread alone lets go of it
            s.phase = Waiting::Phase::done;
        });
        one->state.notify();
    }
    if (self->failure) std::rethrow_exception(std::exchange(self->failure, nullptr));
}

Db::Db(const std::filesystem::path& path, DbOptions options) {
    create_private(path);
    impl_ = std::make_unique<Impl>(path, options);
    in_context(fmt::format("database {}", path.native()), [&] { impl_->prepare_writer(); });
}

Db::~Db() = default;

void Db::write(const std::function<void(Tx&)>& fn) {
    const auto self = std::make_shared<Waiting>(fn);
    const bool lead = impl_->queue.with([&](Queue& q) {
        TY_ASSERT(!q.led || q.leader != std::this_thread::get_id());  // write() inside write()
        q.waiting.push_back(self);
        return !std::exchange(q.led, true);
    });
    if (!lead) {
        // Bounded by the leader's transaction: fn lives on this stack, so leaving early is no
        // choice.
        const auto [phase, failure] = self->state.wait(
            Deadline::never(), {},
            [](const Waiting::State& s) { return s.phase != Waiting::Phase::queued; },
            [](Waiting::State& s) {
                return std::pair(s.phase, std::exchange(s.failure, nullptr));
            });
        if (phase == Waiting::Phase::done) {
            if (failure) std::rethrow_exception(failure);
            return;
        }
    }
    impl_->lead(self);
}

void Db::read(const std::function<void(Tx&)>& fn) const {
    using Pool = Impl::Pool;
    const std::size_t most = std::max<std::size_t>(impl_->options.readers, 1);
    auto [granted, connection] = impl_->readers.wait(
        Deadline::in(kReaderWait), {},
        [&](const Pool& pool) { return !pool.idle.empty() || pool.open < most; },
        [&](Pool& pool) {
            if (!pool.idle.empty()) {
                auto taken = std::move(pool.idle.back());
                pool.idle.pop_back();
                return std::pair(true, std::move(taken));
            }
            const bool room = pool.open < most;
            if (room) ++pool.open;
            return std::pair(room, std::unique_ptr<Connection>());
        });
    if (!granted)
        throw_error(Code::unavailable, "DatabaseBusy",
                    "all {} database readers were busy for {} s; try again", most,
                    kReaderWait.count());
    // Gives the connection, or the right to open one, back whatever happens.
    struct Return {
        Impl& impl;
        std::unique_ptr<Connection>& connection;
        ~Return() {
            impl.readers.with([&](Pool& pool) {
                if (connection && !connection->in_transaction())
                    pool.idle.push_back(std::move(connection));
                else
                    --pool.open;
            });
            impl.readers.notify();
        }
    } const give_back{*impl_, connection};
    if (!connection) {
        connection = std::make_unique<Connection>(impl_->path, Connection::Mode::read_only);
        connection->execute(
            "pragma temp_store = memory; pragma cache_size = -2000;"
            "pragma trusted_schema = off");
    }
    connection->execute("begin");
    try {
        fn(*connection);
    } catch (...) {
        connection->roll_back();
        throw;
    }
    connection->execute("commit");
}

}  // namespace ty::store
