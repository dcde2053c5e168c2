// SPDX-License-Identifier: Apache-2.0
#include "store/connection.h"

#include <sqlite3.h>

namespace ty::store {

Stmt::~Stmt() {
    if (stmt_ == nullptr) return;
    sqlite3_reset(stmt_);
    sqlite3_clear_bindings(stmt_);
    try {
        home_->push_back(stmt_);
    } catch (const std::bad_alloc&) {
        sqlite3_finalize(stmt_);
    }
}

void Stmt::check(int code, const char* what) const {
    if (code != SQLITE_OK) [[unlikely]]
        throw_sqlite(db_, code, fmt::format("{} \"{}\"", what, sqlite3_sql(stmt_)));
}

Stmt& Stmt::bind(int index, std::string_view text) {
    // A null pointer would bind NULL; an empty view means the empty text.
    const char* data = text.data() != nullptr ? text.data() : "";
    check(sqlite3_bind_text64(stmt_, index, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8),
          "bind text to");
    return *this;
}

Stmt& Stmt::bind(int index, std::int64_t value) {
    check(sqlite3_bind_int64(stmt_, index, value), "bind integer to");
    return *this;
}

Stmt& Stmt::bind(int index, double value) {
    check(sqlite3_bind_double(stmt_, index, value), "bind real to");
    return *this;
}

Stmt& Stmt::bind_null(int index) {
    check(sqlite3_bind_null(stmt_, index), "bind null to");
    return *this;
}

Stmt& Stmt::bind_blob(int index, std::string_view bytes) {
    const char* data = bytes.data() != nullptr ? bytes.data() : "";
    check(sqlite3_bind_blob64(stmt_, index, data, bytes.size(), SQLITE_TRANSIENT), "bind blob to");
    return *this;
}

bool Stmt::step() {
    const int code = sqlite3_step(stmt_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    throw_sqlite(db_, code, fmt::format("run \"{}\"", sqlite3_sql(stmt_)));
}

int Stmt::run() {
    while (step()) {
    }
    const int changes = sqlite3_changes(db_);
    reset();
    return changes;
}

void Stmt::reset() {
    sqlite3_reset(stmt_);
}

bool Stmt::is_null(int column) const {
    return sqlite3_column_type(stmt_, column) == SQLITE_NULL;
}

std::string Stmt::text(int column) const {
    const void* data = sqlite3_column_type(stmt_, column) == SQLITE_BLOB
                           ? sqlite3_column_blob(stmt_, column)
                           : static_cast<const void*>(sqlite3_column_text(stmt_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(stmt_, column));
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

std::int64_t Stmt::integer(int column) const {
    return sqlite3_column_int64(stmt_, column);
}

double Stmt::real(int column) const {
    return sqlite3_column_double(stmt_, column);
}

}  // namespace ty::store
