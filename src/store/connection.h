// SPDX-License-Identifier: Apache-2.0
// One SQLite connection with its statement cache; also the Tx that closures see. Private to store.
// Used by one thread at a time; whoever owns it (the commit leader, a reader) sees to that.
#pragma once

#include "base/text.h"
#include "store/store.h"

#include <unordered_map>

namespace ty::store {

/// Throws the ty::Error for a failed SQLite call; `what` says what was tried.
[[noreturn]] void throw_sqlite(sqlite3* db, int code, std::string_view what);

class Connection final : public Tx {
public:
    enum class Mode { read_write, read_only };
    Connection(const std::filesystem::path& path, Mode mode);
    ~Connection() override;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    Stmt prepare(std::string_view sql) override;
    void execute(std::string_view sql) override;
    std::int64_t last_row_id() const override;

    /// False once SQLite has rolled the transaction back by itself (full disk, I/O error).
    bool in_transaction() const;
    /// End an open transaction without effect; never throws.
    void roll_back() noexcept;

private:
    sqlite3* db_ = nullptr;
    std::unordered_map<std::string, Stmt::Idle, StringHash, std::equal_to<>> cache_;
};

}  // namespace ty::store
