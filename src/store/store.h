// SPDX-License-Identifier: Apache-2.0
// SQLite: one writer with group commit, a pool of readers, numbered migrations (D4). No table
// knowledge here; each module owns its SQL.
#pragma once

#include "base/error.h"
#include "base/time.h"

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace ty::store {

/// A prepared statement, borrowed from its connection's cache and given back, reset, when it goes
/// out of scope. Parameters count from 1, columns from 0, as in SQLite. Every call may throw:
/// conflict "UniqueConstraint" or "Constraint", exhausted "DiskFull", unavailable, corrupt.
class Stmt {
public:
    /// Statements of one SQL text that nobody uses at the moment.
    using Idle = std::vector<sqlite3_stmt*>;

    Stmt(sqlite3* db, sqlite3_stmt* stmt, Idle& home) : db_(db), stmt_(stmt), home_(&home) {}
    Stmt(Stmt&& other) noexcept
        : db_(other.db_), stmt_(std::exchange(other.stmt_, nullptr)), home_(other.home_) {}
    Stmt& operator=(Stmt&&) = delete;
    ~Stmt();

    Stmt& bind(int index, std::string_view text);
    Stmt& bind(int index, const char* text) { return bind(index, std::string_view(text)); }
    Stmt& bind(int index, std::int64_t value);
    Stmt& bind(int index, double value);
    template <std::integral T>
    Stmt& bind(int index, T value) {
        return bind(index, static_cast<std::int64_t>(value));
    }
    Stmt& bind(int index, Instant instant) {
        return bind(index, static_cast<std::int64_t>(to_epoch_millis(instant)));
    }
    Stmt& bind_null(int index);
    Stmt& bind_blob(int index, std::string_view bytes);
    /// True while there is a row.
    bool step();
    /// Run a statement without rows; returns the number of changed rows. May be bound and run
    /// again.
    int run();
    /// Make it ready for other parameters after step().
    void reset();
    bool is_null(int column) const;
    /// Text or blob bytes; empty for NULL.
    std::string text(int column) const;
    std::int64_t integer(int column) const;
    double real(int column) const;
    Instant instant(int column) const { return from_epoch_millis(integer(column)); }

private:
    void check(int code, const char* what) const;

    sqlite3* db_;
    sqlite3_stmt* stmt_;
    Idle* home_;
};

/// A connection inside a transaction; valid only during the call it is passed to.
class Tx {
public:
    virtual ~Tx() = default;
    /// One statement. Cached by its text for the life of the connection, so `sql` must be a literal
    /// or one of a few fixed texts, with values bound. Asking twice for a text in use is fine.
    virtual Stmt prepare(std::string_view sql) = 0;
    /// One or several statements without parameters or rows.
    virtual void execute(std::string_view sql) = 0;
    virtual std::int64_t last_row_id() const = 0;
};

struct DbOptions {
    /// full: a returned write() survives power loss. normal: it survives a killed process.
    enum class Durability { full, normal } durability = Durability::full;
    std::size_t readers = 4;
};

class Db {
public:
    /// Opens or creates and migrates to the newest version. Throws corrupt, denied, exhausted;
    /// throws unsupported when the file is from a newer program.
    explicit Db(const std::filesystem::path& path, DbOptions options = {});
    ~Db();
    Db(const Db&) = delete;
    Db& operator=(const Db&) = delete;

    /// Run fn in a write transaction, durable on return. Concurrent callers share one commit (group
    /// commit): each fn runs in its own savepoint, so one that throws leaves the others untouched
    /// and its exception reaches its caller. fn runs once, on any caller's thread; it must not
    /// block on anything else nor call write() again. Use no deferred constraints: they would fail
    /// the whole group at its commit. Throws exhausted "DiskFull" when there is no room; nothing
    /// was written then. Any thread.
    void write(const std::function<void(Tx&)>& fn);
    /// Run fn in a read transaction on a snapshot. Throws unavailable "DatabaseBusy" when no reader
    /// is free for half a minute. Any thread.
    void read(const std::function<void(Tx&)>& fn) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ty::store
