// SPDX-License-Identifier: Apache-2.0
// SQLite: one writer with group commit, a pool of readers, numbered migrations (D4). No table
// knowledge here; each module owns its SQL.
#pragma once

#include "base/error.h"
#include "base/time.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace ty::store {

/// A prepared statement, borrowed from its connection's cache and reset when it goes out of scope.
/// Parameters count from 1, columns from 0, as in SQLite.
class Stmt {
public:
    Stmt(sqlite3* db, sqlite3_stmt* stmt) : db_(db), stmt_(stmt) {}
    Stmt(Stmt&& other) noexcept : db_(other.db_), stmt_(std::exchange(other.stmt_, nullptr)) {}
    ~Stmt();

    Stmt& bind(int index, std::string_view text);
    Stmt& bind(int index, std::int64_t value);
    Stmt& bind(int index, double value);
    Stmt& bind_null(int index);
    Stmt& bind_blob(int index, std::string_view bytes);
    Stmt& bind(int index, Instant instant) { return bind(index, std::int64_t(to_epoch_millis(instant))); }
    /// True while there is a row.
    bool step();
    /// Run a statement without rows; returns the number of changed rows.
    int run();
    bool is_null(int column) const;
    std::string text(int column) const;
    std::int64_t integer(int column) const;
    double real(int column) const;
    Instant instant(int column) const { return from_epoch_millis(integer(column)); }

private:
    sqlite3* db_;
    sqlite3_stmt* stmt_;
};

/// A connection inside a transaction; valid only during the call it is passed to.
class Tx {
public:
    virtual ~Tx() = default;
    /// `sql` must be a string literal: statements are cached by its address and text.
    virtual Stmt prepare(std::string_view sql) = 0;
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
    /// Opens or creates and migrates to the newest version. Throws corrupt, denied, exhausted; throws
    /// unsupported when the file is from a newer program.
    explicit Db(const std::filesystem::path& path, DbOptions options = {});
    ~Db();
    Db(const Db&) = delete;
    Db& operator=(const Db&) = delete;

    /// Run fn in a write transaction, durable on return. Concurrent callers share one commit (group
    /// commit): each fn runs in its own savepoint, so one that throws leaves the others untouched and
    /// its exception reaches its caller. fn must not block on anything else. Any thread.
    void write(const std::function<void(Tx&)>& fn);
    /// Run fn in a read transaction on a snapshot. Any thread.
    void read(const std::function<void(Tx&)>& fn) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Thrown (Code::exhausted, reason "DiskFull") when SQLite reports a full disk.

}  // namespace ty::store
