// SPDX-License-Identifier: Apache-2.0
#include "store/connection.h"

#include <sqlite3.h>
#include <cerrno>

namespace ty::store {
namespace {

constexpr int kBusyTimeoutMs = 5000;

[[noreturn]] void throw_constraint(int extended, std::string_view what, const char* detail) {
    const bool unique = extended == SQLITE_CONSTRAINT_UNIQUE ||
                        extended == SQLITE_CONSTRAINT_PRIMARYKEY ||
                        extended == SQLITE_CONSTRAINT_ROWID;
    throw_error(Code::conflict, unique ? "UniqueConstraint" : "Constraint", "{}: {}", what, detail);
}

}  // namespace

void throw_sqlite(sqlite3* db, int code, std::string_view what) {
    const int extended = db != nullptr ? sqlite3_extended_errcode(db) : code;
    const char* detail = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    const int os = db != nullptr ? sqlite3_system_errno(db) : 0;
    switch (code & 0xff) {
        case SQLITE_CONSTRAINT:
            throw_constraint(extended, what, detail);
        case SQLITE_FULL:
            throw_error(Code::exhausted, "DiskFull", "{}: the disk is full; free some space", what);
        case SQLITE_IOERR:
            if (os == ENOSPC || os == EDQUOT || os == EFBIG)
                throw_error(Code::exhausted, "DiskFull", "{}: no room left ({}); free some space",
                            what, detail);
            throw_error(Code::unavailable, "DiskError", "{}: {} (errno {})", what, detail, os);
        case SQLITE_NOMEM:
            throw_error(Code::exhausted, "OutOfMemory", "{}: out of memory", what);
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            throw_error(Code::unavailable, "DatabaseBusy", "{}: {}; is another process using it?",
                        what, detail);
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
            throw_error(Code::corrupt, "DatabaseCorrupt", "{}: {}", what, detail);
        case SQLITE_CANTOPEN:
        case SQLITE_PERM:
        case SQLITE_AUTH:
        case SQLITE_READONLY:
            throw_error(Code::denied, "DatabaseDenied", "{}: {}", what, detail);
        case SQLITE_INTERRUPT:
            throw_error(Code::cancelled, "", "{}: interrupted", what);
        case SQLITE_TOOBIG:
            throw_error(Code::invalid, "TooBig", "{}: {}", what, detail);
        default:
            throw_error(Code::internal, "", "{}: {} (sqlite {})", what, detail, extended);
    }
}

Connection::Connection(const std::filesystem::path& path, Mode mode) {
    const int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE |
                      (mode == Mode::read_only ? SQLITE_OPEN_READONLY
                                               : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    const int code = sqlite3_open_v2(path.c_str(), &db_, flags, nullptr);
    if (code != SQLITE_OK) {
        try {
            throw_sqlite(db_, code, fmt::format("open database {}", path.native()));
        } catch (Error&) {
            sqlite3_close_v2(db_);
            throw;
        }
    }
    sqlite3_busy_timeout(db_, kBusyTimeoutMs);
}

Connection::~Connection() {
    for (auto& [sql, idle] : cache_)
        for (sqlite3_stmt* stmt : idle) sqlite3_finalize(stmt);
    sqlite3_close_v2(db_);
}

Stmt Connection::prepare(std::string_view sql) {
    auto found = cache_.find(sql);
    if (found == cache_.end()) found = cache_.emplace(std::string(sql), Stmt::Idle()).first;
    Stmt::Idle& idle = found->second;
    if (!idle.empty()) {
        sqlite3_stmt* stmt = idle.back();
        idle.pop_back();
        return Stmt(db_, stmt, idle);
    }
    sqlite3_stmt* stmt = nullptr;
    const int code = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &stmt, nullptr);
    if (code != SQLITE_OK) throw_sqlite(db_, code, fmt::format("prepare \"{}\"", sql));
    TY_ASSERT(stmt != nullptr);
    return Stmt(db_, stmt, idle);
}

void Connection::execute(std::string_view sql) {
    const std::string text(sql);
    const int code = sqlite3_exec(db_, text.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK)
        throw_sqlite(db_, code, fmt::format("run \"{}\"", truncate_utf8(text, 120)));
}

std::int64_t Connection::last_row_id() const {
    return sqlite3_last_insert_rowid(db_);
}

bool Connection::in_transaction() const {
    return sqlite3_get_autocommit(db_) == 0;
}

void Connection::roll_back() noexcept {
    if (in_transaction()) sqlite3_exec(db_, "rollback", nullptr, nullptr, nullptr);
}

}  // namespace ty::store
