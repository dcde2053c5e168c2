// SPDX-License-Identifier: Apache-2.0
// Bringing a database to the program's version. Migrations are numbered SQL files, applied once
// each in order of number and recorded in the table schema_migrations. Private to store.
#pragma once

#include "store/connection.h"

#include <span>
#include <string_view>
#include <utility>

namespace ty::store {

/// {"0001_objects.sql", content}, sorted by name; generated at configure time.
using MigrationFile = std::pair<std::string_view, std::string_view>;
std::span<const MigrationFile> embedded_migrations();

/// Applies what is missing, each file in one transaction with its record. Throws unsupported
/// "DatabaseTooNew" when the database records a migration that `files` lacks.
void migrate(Connection& connection, std::span<const MigrationFile> files);

}  // namespace ty::store
