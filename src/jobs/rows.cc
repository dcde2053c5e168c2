// SPDX-License-Identifier: Apache-2.0
#include "jobs/rows.h"

#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "jobs/names.h"

namespace ty::jobs {

namespace {

// Columns in the order row_to_job reads them; joined by number.
#define TY_JOB_COLUMNS                                                                 \
    "select j.number, j.id, j.account, j.region, j.name, j.arn, j.status, j.created, " \
    "j.modified, j.version, t.state, s.instance_count, s.warning, s.node, s.document " \
    "from job j join job_state t on t.number = j.number join job_spec s on s.number = j.number "

/// Columns 0 to 11: all that changes, and who it is.
Row row_to_outline(const store::Stmt& row) {
    Row result;
    result.number = row.integer(0);
    Job& job = result.job;
    job.id = JobId(row.text(1));
    job.spec.account = row.text(2);
    job.spec.region = row.text(3);
    job.spec.name = row.text(4);
    job.spec.arn = row.text(5);
    const auto status = parse_status(row.text(6));
    if (!status)
        throw_error(Code::corrupt, "", "job \"{}\" has the unknown status \"{}\" in the database",
                    job.spec.name, row.text(6));
    job.status = *status;
    job.created = row.instant(7);
    job.modified = row.instant(8);
    job.version = row.integer(9);
    job.spec.instance_count = static_cast<int>(row.integer(11));
    in_context("job " + job.spec.name, [&] { state_from_json(row.text(10), job); });
    return result;
}

/// Templates of jobs that an earlier version stored: what was added since has defaults.
plan::NodePlan template_from(std::string text) {
    constexpr std::string_view kOld = "{\"version\":1,";
    if (text.starts_with(kOld))
        text.replace(0, kOld.size(), fmt::format("{{\"version\":{},", plan::kPlanVersion));
    return plan::plan_from_json(text);
}

Row row_to_job(const store::Stmt& row) {
    Row result = row_to_outline(row);
    Job& job = result.job;
    in_context("job " + job.spec.name, [&] { job.spec.node = template_from(row.text(13)); });
    job.spec.warning = row.text(12);
    job.document = row.text(14);
    return result;
}

std::optional<Row> one(store::Stmt stmt) {
    if (!stmt.step()) return std::nullopt;
    return row_to_job(stmt);
}

std::optional<Instant> ended_of(const Job& job) {
    if (!is_terminal(job.status)) return std::nullopt;
    return job.transitions.back().start;
}

}  // namespace

bool is_live(const Job& job) {
    return !is_terminal(job.status) || (!job.attempts.empty() && !job.attempts.back().released);
}

std::int64_t insert_job(store::Tx& tx, const Job& job, const std::string& node_json,
                        const std::string& idempotency) {
    auto row = tx.prepare(
        "insert into job (id, account, region, name, name_key, arn, status, secondary, created, "
        "modified, ended, version, live, idempotency) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, null, ?11, 1, ?12)");
    row.bind(1, job.id.str()).bind(2, job.spec.account).bind(3, job.spec.region);
    row.bind(4, job.spec.name).bind(5, to_lower(job.spec.name)).bind(6, job.spec.arn);
    row.bind(7, to_string(job.status)).bind(8, to_string(job.secondary()));
    row.bind(9, job.created).bind(10, job.modified).bind(11, job.version).bind(12, idempotency);
    row.run();
    const std::int64_t number = tx.last_row_id();

    auto state = tx.prepare("insert into job_state (number, state) values (?1, ?2)");
    state.bind(1, number).bind(2, state_to_json(job)).run();
    auto spec = tx.prepare(
        "insert into job_spec (number, instance_count, warning, node, document) "
        "values (?1, ?2, ?3, ?4, ?5)");
    spec.bind(1, number).bind(2, job.spec.instance_count).bind(3, job.spec.warning);
    spec.bind(4, node_json).bind(5, job.document).run();
    return number;
}

void update_job(store::Tx& tx, std::int64_t number, const Job& job, std::int64_t before) {
    auto row = tx.prepare(
        "update job set status = ?1, secondary = ?2, modified = ?3, ended = ?4, version = ?5, "
        "live = ?6 where number = ?7 and version = ?8");
    row.bind(1, to_string(job.status)).bind(2, to_string(job.secondary())).bind(3, job.modified);
    if (const auto ended = ended_of(job))
        row.bind(4, *ended);
    else
        row.bind_null(4);
    row.bind(5, job.version).bind(6, is_live(job) ? 1 : 0).bind(7, number).bind(8, before);
    if (row.run() != 1)
        throw_error(Code::internal, "", "job \"{}\" is no longer at version {}", job.spec.name,
                    before);
    auto state = tx.prepare("update job_state set state = ?1 where number = ?2");
    state.bind(1, state_to_json(job)).bind(2, number).run();
}

void update_document(store::Tx& tx, std::int64_t number, const std::string& document, Instant now) {
    auto spec = tx.prepare("update job_spec set document = ?1 where number = ?2");
    spec.bind(1, document).bind(2, number).run();
    auto row = tx.prepare("update job set modified = ?1, version = version + 1 where number = ?2");
    row.bind(1, now).bind(2, number).run();
}

void delete_job(store::Tx& tx, std::int64_t number, const std::string& arn) {
    tx.prepare("delete from job_tag where arn = ?1").bind(1, arn).run();
    tx.prepare("delete from job where number = ?1").bind(1, number).run();
}

std::optional<Row> find_by_name(store::Tx& tx, const std::string& region, const std::string& name) {
    auto stmt = tx.prepare(
        TY_JOB_COLUMNS "where j.region = ?1 and j.name_key = ?2 order by j.number desc limit 1");
    stmt.bind(1, region).bind(2, to_lower(name));
    return one(std::move(stmt));
}

std::optional<Row> find_by_id(store::Tx& tx, const JobId& id) {
    auto stmt = tx.prepare(TY_JOB_COLUMNS "where j.id = ?1");
    stmt.bind(1, id.str());
    return one(std::move(stmt));
}

std::optional<Row> find_by_number(store::Tx& tx, std::int64_t number) {
    auto stmt = tx.prepare(TY_JOB_COLUMNS "where j.number = ?1");
    stmt.bind(1, number);
    return one(std::move(stmt));
}

std::optional<std::int64_t> version_of(store::Tx& tx, std::int64_t number) {
    auto stmt = tx.prepare("select version from job where number = ?1");
    stmt.bind(1, number);
    if (!stmt.step()) return std::nullopt;
    return stmt.integer(0);
}

std::optional<Taken> find_taken(store::Tx& tx, const JobSpec& spec) {
    auto stmt = tx.prepare(
        "select number, arn, idempotency from job "
        "where region = ?1 and name_key = ?2 and account = ?3");
    stmt.bind(1, spec.region).bind(2, to_lower(spec.name)).bind(3, spec.account);
    if (!stmt.step()) return std::nullopt;
    return Taken{stmt.integer(0), stmt.text(1), stmt.text(2)};
}

std::vector<Row> live_jobs(store::Tx& tx) {
    auto stmt = tx.prepare(
        "select j.number, j.id, j.account, j.region, j.name, j.arn, j.status, j.created, "
        "j.modified, j.version, t.state, s.instance_count "
        "from job j join job_state t on t.number = j.number join job_spec s on s.number = j.number "
        "where j.live = 1 order by j.number");
    std::vector<Row> rows;
    while (stmt.step()) {
        // One unreadable row must not keep the service from starting.
        auto row = capture([&stmt] { return row_to_outline(stmt); });
        if (row.ok())
            rows.push_back(std::move(row).value());
        else
            log::error("a stored job cannot be read", {{"error", row.error().what()}});
    }
    return rows;
}

std::vector<Job> newest(store::Tx& tx, const std::string& region, std::size_t offset,
                        std::size_t limit) {
    auto stmt = tx.prepare(TY_JOB_COLUMNS
                           "where j.number in (select number from job where region = ?1 "
                           "order by created desc, number desc limit ?2 offset ?3) "
                           "order by j.created desc, j.number desc");
    stmt.bind(1, region).bind(2, limit).bind(3, offset);
    std::vector<Job> jobs;
    while (stmt.step()) jobs.push_back(row_to_job(stmt).job);
    return jobs;
}

void put_tag(store::Tx& tx, const std::string& arn, const Tag& tag) {
    auto stmt = tx.prepare(
        "insert into job_tag (arn, key, value, position) values (?1, ?2, ?3, "
        "(select coalesce(max(position), 0) + 1 from job_tag where arn = ?1)) "
        "on conflict (arn, key) do update set value = excluded.value");
    stmt.bind(1, arn).bind(2, tag.key).bind(3, tag.value).run();
}

std::size_t count_tags(store::Tx& tx, const std::string& arn) {
    auto stmt = tx.prepare("select count(*) from job_tag where arn = ?1");
    stmt.bind(1, arn);
    stmt.step();
    return static_cast<std::size_t>(stmt.integer(0));
}

void delete_tag(store::Tx& tx, const std::string& arn, const std::string& key) {
    tx.prepare("delete from job_tag where arn = ?1 and key = ?2").bind(1, arn).bind(2, key).run();
}

std::vector<Tag> tags_of(store::Tx& tx, const std::string& arn) {
    auto stmt = tx.prepare("select key, value from job_tag where arn = ?1 order by position");
    stmt.bind(1, arn);
    std::vector<Tag> tags;
    while (stmt.step()) tags.push_back({stmt.text(0), stmt.text(1)});
    return tags;
}

std::optional<std::string> find_setting(store::Tx& tx, const std::string& name) {
    auto stmt = tx.prepare("select value from job_setting where name = ?1");
    stmt.bind(1, name);
    if (!stmt.step()) return std::nullopt;
    return stmt.text(0);
}

void put_setting(store::Tx& tx, const std::string& name, const std::string& value) {
    auto stmt = tx.prepare("insert into job_setting (name, value) values (?1, ?2)");
    stmt.bind(1, name).bind(2, value).run();
}

}  // namespace ty::jobs
