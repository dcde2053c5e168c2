// SPDX-License-Identifier: Apache-2.0
// The door to jobs for the control plane's faces: create, find, list, stop, remove, tags.
#include "base/error.h"
#include "base/text.h"
#include "jobs/impl.h"
#include "jobs/list.h"

namespace ty::jobs {

namespace {

constexpr std::size_t kCachedJobs = 512;
constexpr std::size_t kMaxTags = 50;
constexpr std::size_t kIdLength = 20;

std::size_t slots_of(const Placing& placing, const engine::Engine& engine) {
    const int wanted =
        placing.max_running > 0 ? placing.max_running : std::max(2, engine.capacity().cpus);
    return static_cast<std::size_t>(wanted);
}

[[noreturn]] void throw_not_found(const std::string& region, const std::string& name) {
    throw_error(Code::not_found, "", "there is no training job \"{}\" in {}", name, region);
}

[[noreturn]] void throw_taken(const std::string& arn) {
    throw_error(
        Code::conflict, "ResourceInUse",
        "Training job names must be unique within an AWS account and region, and a training "
        "job with this name already exists ({})",
        arn);
}

void put_tags(store::Tx& tx, const std::string& arn, const std::vector<Tag>& tags) {
    for (const Tag& tag : tags) put_tag(tx, arn, tag);
    if (tags.empty()) return;
    const std::size_t count = count_tags(tx, arn);
    if (count > kMaxTags)
        throw_error(Code::exhausted, "ResourceLimitExceeded",
                    "{} would have {} tags and {} are allowed; delete some first", arn, count,
                    kMaxTags);
}

}  // namespace

Row need_job(store::Tx& tx, const std::string& region, const std::string& name) {
    auto row = find_by_name(tx, region, name);
    if (!row) throw_not_found(region, name);
    return std::move(*row);
}

// ---- moving jobs
// ---------------------------------------------------------------------------------

JobService::Impl::Impl(store::Db& d, engine::Engine& e, Clock& c, Ids& i, Placing p)
    : db(d),
      engine(e),
      clock(c),
      ids(i),
      placing(std::move(p)),
      slots(slots_of(placing, e)),
      cache(kCachedJobs) {
    db.write([this](store::Tx& tx) {
        if (const auto known = find_setting(tx, "secret")) {
            secret = *known;
        } else {
            secret = ids.token(52);
            put_setting(tx, "secret", secret);
        }
    });
    recover();
    tasks.start("reconciler", [this](std::stop_token stop) { run(stop); });
}

JobService::Impl::~Impl() {
    engine.on_gone(nullptr);
    tasks.stop_and_join();
}

JobService::Impl::Moved JobService::Impl::move(store::Tx& tx, Row row,
                                               const std::vector<Stimulus>& stimuli) {
    Moved moved;
    const std::int64_t before = row.job.version;
    moved.was_terminal = is_terminal(row.job.status);
    for (const Stimulus& stimulus : stimuli) {
        Stepped stepped = step(std::move(row.job), stimulus, clock.now());
        row.job = std::move(stepped.job);
        for (Effect& effect : stepped.effects) moved.effects.push_back(std::move(effect));
    }
    moved.changed = row.job.version != before;
    if (moved.changed) update_job(tx, row.number, row.job, before);
    moved.row = std::move(row);
    return moved;
}

bool JobService::Impl::apply(const JobId& id, const std::vector<Stimulus>& stimuli) {
    std::optional<Moved> moved;
    db.write([&](store::Tx& tx) {
        if (auto row = load(tx, id)) moved = move(tx, std::move(*row), stimuli);
    });
    if (!moved) return false;
    publish(std::move(*moved));
    return true;
}

/// After the commit. Threads may come here in another order than they committed in: versions
/// decide.
void JobService::Impl::publish(Moved moved) {
    if (!moved.changed) return;
    const std::int64_t number = moved.row.number;
    const auto job = std::make_shared<const Job>(std::move(moved.row.job));
    cache.put(number, job);
    live.put(number, *job);
    if (!moved.was_terminal && is_terminal(job->status)) {
        if (job->status == Status::completed) ++completed;
        if (job->status == Status::failed) ++failed;
        if (job->status == Status::stopped) ++stopped;
    }
    if (is_terminal(job->status)) claims.release(job->id);
    work->with([&](Work& w) {
        note(w, number, *job, moved.effects);
        if (has_listener) w.changes.push_back(job);
    });
    work->notify();
}

std::optional<Row> JobService::Impl::load(store::Tx& tx, const JobId& id) {
    const Cached cached = cache.find(id);
    if (cached.job != nullptr && version_of(tx, cached.number) == cached.job->version)
        return Row{cached.number, *cached.job};
    return find_by_id(tx, id);
}

Cached JobService::Impl::find(const std::string& region, const std::string& name) {
    Cached found = cache.find(region, name);
    if (found.job != nullptr) return found;
    const std::uint64_t generation = cache.generation();
    db.read([&](store::Tx& tx) {
        if (auto row = find_by_name(tx, region, name))
            found = {row->number, std::make_shared<const Job>(std::move(row->job))};
    });
    if (found.job != nullptr) cache.fill(generation, found.number, found.job);
    return found;
}

Cached JobService::Impl::find(const JobId& id) {
    Cached found = cache.find(id);
    if (found.job != nullptr) return found;
    const std::uint64_t generation = cache.generation();
    db.read([&](store::Tx& tx) {
        if (auto row = find_by_id(tx, id))
            found = {row->number, std::make_shared<const Job>(std::move(row->job))};
    });
    if (found.job != nullptr) cache.fill(generation, found.number, found.job);
    return found;
}

Job JobService::Impl::create(JobSpec spec, std::string document, const std::vector<Tag>& tags,
                             const std::string& idempotency) {
    Job fresh;
    fresh.id = JobId("j-" + ids.token(kIdLength));
    fresh.version = 0;
    fresh.spec = std::move(spec);
    fresh.document = std::move(document);
    const Instant now = clock.now();
    Stepped stepped = step(std::move(fresh), Created{}, now);
    const std::size_t ahead =
        work->with([](const Work& w) { return w.occupied.size() + w.launches.size(); });
    if (ahead >= slots) {
        const AttemptId attempt = stepped.job.attempts.back().id;
        stepped.job =
            step(std::move(stepped.job), Queued{attempt, static_cast<int>(slots)}, now).job;
    }
    const std::string node_json = plan::to_json(stepped.job.spec.node);

    Moved moved{{0, std::move(stepped.job)}, std::move(stepped.effects), true, false};
    std::optional<Row> existing;
    claims.claim(moved.row.job);
    // Whatever goes wrong, a job that was not made claims nothing.
    const auto unclaim = [this, id = moved.row.job.id] { claims.release(id); };
    const auto insert = [&](store::Tx& tx) {
        if (const auto taken = find_taken(tx, moved.row.job.spec)) {
            if (idempotency.empty() || taken->idempotency != idempotency) throw_taken(taken->arn);
            existing = find_by_number(tx, taken->number);
            return;
        }
        moved.row.number = insert_job(tx, moved.row.job, node_json, idempotency);
        put_tags(tx, moved.row.job.spec.arn, tags);
    };
    try {
        db.write(insert);
    } catch (...) {
        unclaim();
        throw;
    }
    if (existing) {
        unclaim();
        return std::move(existing->job);
    }
    ++created;
    Job result = moved.row.job;
    publish(std::move(moved));
    return result;
}

// ---- the door
// ------------------------------------------------------------------------------------

JobService::JobService(store::Db& db, engine::Engine& engine, Clock& clock, Ids& ids,
                       Placing placing)
    : impl_(std::make_unique<Impl>(db, engine, clock, ids, std::move(placing))) {}

JobService::~JobService() = default;

Job JobService::create(JobSpec spec, std::string document, std::vector<Tag> tags,
                       const std::string& idempotency) {
    return impl_->create(std::move(spec), std::move(document), tags, idempotency);
}

std::optional<Job> JobService::find(const std::string& region, const std::string& name) const {
    const Cached found = impl_->find(region, name);
    if (found.job == nullptr) return std::nullopt;
    return *found.job;
}

Page JobService::list(const ListQuery& query) const {
    Page page;
    impl_->db.read([&](store::Tx& tx) { page = list_page(tx, query, impl_->secret); });
    return page;
}

std::vector<Job> JobService::all(const std::string& region, std::size_t offset,
                                 std::size_t limit) const {
    std::vector<Job> jobs;
    impl_->db.read([&](store::Tx& tx) { jobs = newest(tx, region, offset, limit); });
    return jobs;
}

void JobService::request_stop(const std::string& region, const std::string& name) {
    Impl::Moved moved;
    impl_->db.write([&](store::Tx& tx) {
        Row row = need_job(tx, region, name);
        if (is_terminal(row.job.status))
            throw_error(Code::invalid, "ValidationException",
                        "The request was rejected because the training job is in status {}",
                        to_string(row.job.status));
        moved = impl_->move(tx, std::move(row), {StopRequested{}});
    });
    impl_->publish(std::move(moved));
}

void JobService::remove(const std::string& region, const std::string& name) {
    JobId id;
    impl_->db.write([&](store::Tx& tx) {
        const Row row = need_job(tx, region, name);
        if (!is_terminal(row.job.status))
            throw_error(
                Code::invalid, "ValidationException",
                "The request was rejected because the training job is in status {}; stop it "
                "and wait for its end",
                to_string(row.job.status));
        delete_job(tx, row.number, row.job.spec.arn);
        id = row.job.id;
    });
    impl_->cache.erase(id);
}

void JobService::update_document(const std::string& region, const std::string& name,
                                 std::string document) {
    Impl::Moved moved;
    impl_->db.write([&](store::Tx& tx) {
        moved.row = need_job(tx, region, name);
        Job& job = moved.row.job;
        job.modified = std::max(job.modified, impl_->clock.now());
        job.document = std::move(document);
        ++job.version;
        jobs::update_document(tx, moved.row.number, job.document, job.modified);
    });
    moved.changed = true;
    moved.was_terminal = true;  // nothing to count
    impl_->publish(std::move(moved));
}

void JobService::add_tags(const std::string& arn, const std::vector<Tag>& tags) {
    impl_->db.write([&](store::Tx& tx) { put_tags(tx, arn, tags); });
}

void JobService::delete_tags(const std::string& arn, const std::vector<std::string>& keys) {
    impl_->db.write([&](store::Tx& tx) {
        for (const std::string& key : keys) delete_tag(tx, arn, key);
    });
}

std::vector<Tag> JobService::list_tags(const std::string& arn) const {
    std::vector<Tag> tags;
    impl_->db.read([&](store::Tx& tx) { tags = tags_of(tx, arn); });
    return tags;
}

void JobService::on_change(std::function<void(const Job&)> fn) {
    impl_->has_listener = fn != nullptr;
    impl_->on_change.with([&](std::function<void(const Job&)>& known) { known = std::move(fn); });
}

JobService::Counters JobService::counters() const {
    return {impl_->created, impl_->completed, impl_->failed, impl_->stopped, impl_->live.running()};
}

}  // namespace ty::jobs
