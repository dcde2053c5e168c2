// SPDX-License-Identifier: Apache-2.0
// Going through many jobs by a tag, for sums over them. In batches, so that a hundred thousand jobs
// neither lie in memory nor hold a transaction.
#include "jobs/impl.h"

namespace ty::jobs {

namespace {

constexpr std::size_t kBatch = 100;

/// Row numbers after `last`, in order of creation.
std::vector<std::int64_t> next_numbers(store::Tx& tx, const std::string& region,
                                       const std::optional<Tag>& tag, std::int64_t last) {
    auto stmt = tag ? tx.prepare(
                          "select number from job where number > ?1 and region = ?2 and "
                          "exists (select 1 from job_tag t where t.arn = job.arn and "
                          "t.key = ?4 and t.value = ?5) order by number limit ?3")
                    : tx.prepare(
                          "select number from job where number > ?1 and region = ?2 "
                          "order by number limit ?3");
    stmt.bind(1, last).bind(2, region).bind(3, kBatch);
    if (tag) stmt.bind(4, tag->key).bind(5, tag->value);
    std::vector<std::int64_t> numbers;
    while (stmt.step()) numbers.push_back(stmt.integer(0));
    return numbers;
}

std::string tag_value(store::Tx& tx, const std::string& arn, const std::string& key) {
    if (key.empty()) return {};
    auto stmt = tx.prepare("select value from job_tag where arn = ?1 and key = ?2");
    stmt.bind(1, arn).bind(2, key);
    return stmt.step() ? stmt.text(0) : std::string();
}

}  // namespace

void JobService::visit(
    const std::string& region, const std::optional<Tag>& tag, const std::string& by,
    const std::function<void(const Job&, const std::string& value)>& each) const {
    std::int64_t last = 0;
    for (;;) {
        std::vector<std::pair<Job, std::string>> batch;
        std::size_t seen = 0;
        impl_->db.read([&](store::Tx& tx) {
            const auto numbers = next_numbers(tx, region, tag, last);
            seen = numbers.size();
            if (seen > 0) last = numbers.back();
            for (const std::int64_t number : numbers) {
                auto row = find_by_number(tx, number);
                if (!row) continue;
                std::string value = tag_value(tx, row->job.spec.arn, by);
                batch.emplace_back(std::move(row->job), std::move(value));
            }
        });
        for (const auto& [job, value] : batch) each(job, value);
        if (seen < kBatch) return;
    }
}

}  // namespace ty::jobs
