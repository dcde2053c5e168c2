// SPDX-License-Identifier: Apache-2.0
#include "store/migrate.h"

#include "base/text.h"

#include <map>

namespace ty::store {
namespace {

/// 12 of "0012_name.sql"; the file names are the program's own.
std::int64_t number_of(std::string_view file) {
    const auto number = parse_int(file.substr(0, file.find('_')));
    TY_ASSERT(number.has_value() && *number > 0);
    return *number;
}

std::map<std::int64_t, std::string> applied(Connection& connection) {
    std::map<std::int64_t, std::string> done;
    Stmt rows = connection.prepare("select number, name from schema_migrations");
    while (rows.step()) done.emplace(rows.integer(0), rows.text(1));
    return done;
}

void apply(Connection& connection, std::string_view name, std::string_view sql) {
    connection.execute("begin immediate");
    try {
        connection.execute(sql);
        connection.prepare("insert into schema_migrations (number, name) values (?1, ?2)")
            .bind(1, number_of(name))
            .bind(2, name)
            .run();
        connection.execute("commit");
    } catch (Error&) {
        connection.roll_back();
        throw;
    }
}

}  // namespace

void migrate(Connection& connection, std::span<const MigrationFile> files) {
    connection.execute(
        "create table if not exists schema_migrations"
        " (number integer primary key, name text not null) strict");
    auto done = applied(connection);
    for (const auto& [name, sql] : files) {
        if (done.erase(number_of(name)) != 0) continue;
        in_context(fmt::format("migration {}", name), [&] { apply(connection, name, sql); });
    }
    if (!done.empty())
        throw_error(Code::unsupported, "DatabaseTooNew",
                    "the database was written by a newer version (it has migration {}); "
                    "start that version, or choose another state folder",
                    done.rbegin()->second);
}

}  // namespace ty::store
