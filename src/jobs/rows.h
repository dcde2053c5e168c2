// SPDX-License-Identifier: Apache-2.0
// The SQL of this module: one function per statement, rows to structs in one place. Every call is
// inside the caller's transaction.
#pragma once

#include "jobs/jobs.h"
#include "store/store.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::jobs {

/// A job with its row number, the order of creation.
struct Row {
    std::int64_t number = 0;
    Job job;
};

/// JSON of everything in a Job that step() changes.
std::string state_to_json(const Job& job);
void state_from_json(std::string_view text, Job& job);

/// The job still needs something done for it after a restart.
bool is_live(const Job& job);

/// Returns the row number. The name must be free.
std::int64_t insert_job(store::Tx& tx, const Job& job, const std::string& node_json,
                        const std::string& idempotency);
/// Store what step() changed; `before` is the version it was loaded with. Throws internal when
/// another writer was faster, which the single writer excludes.
void update_job(store::Tx& tx, std::int64_t number, const Job& job, std::int64_t before);
void update_document(store::Tx& tx, std::int64_t number, const std::string& document, Instant now);
void delete_job(store::Tx& tx, std::int64_t number, const std::string& arn);

std::optional<Row> find_by_name(store::Tx& tx, const std::string& region, const std::string& name);
std::optional<Row> find_by_id(store::Tx& tx, const JobId& id);
/// Version of a job; nullopt when it does not exist.
std::optional<std::int64_t> version_of(store::Tx& tx, std::int64_t number);

/// What stands in the way of a new job of that name.
struct Taken {
    std::int64_t number = 0;
    std::string arn;
    std::string idempotency;
};
std::optional<Taken> find_taken(store::Tx& tx, const JobSpec& spec);
std::optional<Row> find_by_number(store::Tx& tx, std::int64_t number);

/// What recovery needs of them: without document and node plan, which there may be a hundred
/// thousand of.
std::vector<Row> live_jobs(store::Tx& tx);
std::vector<Job> newest(store::Tx& tx, const std::string& region, std::size_t offset,
                        std::size_t limit);

void put_tag(store::Tx& tx, const std::string& arn, const Tag& tag);
std::size_t count_tags(store::Tx& tx, const std::string& arn);
void delete_tag(store::Tx& tx, const std::string& arn, const std::string& key);
std::vector<Tag> tags_of(store::Tx& tx, const std::string& arn);

std::optional<std::string> find_setting(store::Tx& tx, const std::string& name);
void put_setting(store::Tx& tx, const std::string& name, const std::string& value);

}  // namespace ty::jobs
