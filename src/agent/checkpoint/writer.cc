// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/writer.h"

#include "agent/checkpoint/names.h"
#include "agent/checkpoint/whole.h"
#include "agent/transfer/tree.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>

namespace ty::agent {

namespace {

/// Files opened while the folder is whole stay readable when the program replaces or deletes them.
/// The rest is opened when its turn comes.
constexpr std::size_t kPinned = 200;
const CheckpointId kPlain{{0, 0}, 0, "plain"};

/// A storage that takes longer is as good as away: another try finds the files that went through.
Deadline time_for(const std::vector<SendJob>& jobs) {
    constexpr std::uint64_t kSlowest = 2u << 20;  // bytes a second
    std::uint64_t bytes = 0;
    for (const SendJob& job : jobs) bytes += job.mark.size;
    return Deadline::in(seconds(120 + bytes / kSlowest + jobs.size() / 10));
}

Instant time_of(const FileMark& mark) {
    return from_epoch_millis(mark.modified / 1'000'000);
}

}  // namespace

CheckpointWriter::CheckpointWriter(const CheckpointOptions& options, const CheckpointPlace& place,
                                   Sync<FolderWatch>& watch, Clock& clock)
    : options_(options), place_(place), watch_(watch), clock_(clock) {}

void CheckpointWriter::adopt(Adopted adopted, Epoch epoch) {
    epoch_ = epoch;
    epoch_started_ = clock_.monotonic();
    committed_ = std::move(adopted.files);
    plain_ = std::move(adopted.plain);
    visible_ = std::move(adopted.visible);
    for (const auto& [path, file] : uploaded_) garbage_.push_back(data_key(file.data, path));
    uploaded_.clear();
    baseline_.clear();
    for (const auto& [path, file] : committed_) baseline_.insert(path);
    for (const auto& [path, file] : plain_) {
        baseline_.insert(path);
        visible_.insert_or_assign(path, kPlain);
    }
    newest_.reset();
    written_.clear();
    sweep_ = true;
}

void CheckpointWriter::warn_once(const std::string& path, const std::string& why) {
    if (warned_.insert(path + '\0' + why).second)
        options_.say(format("checkpoint: {} is not kept: {}", to_valid_utf8(path), why));
}

std::vector<ScannedFile> CheckpointWriter::scan() {
    return scan_folder(options_.folder, [this](const std::string& path, const std::string& why) {
        warn_once(path, why);
    });
}

CheckpointWriter::Look CheckpointWriter::look() {
    Look look;
    look.taken = clock_.now();
    pinned_ = 0;
    const auto touches = [](FolderWatch& watch) {
        watch.drain();
        return watch.touches();
    };
    const std::uint64_t before = watch_.with(touches);
    const std::vector<ScannedFile> files = scan();
    for (const ScannedFile& file : files) look_at(look, file);
    // The files that matter are open now: what happens from here on does not change them unseen.
    const bool told = watch_.with([](const FolderWatch& watch) { return watch.works(); });
    look.moved = told ? watch_.with(touches) != before : scan() != files;
    // Without jobs `next` is what was committed, less what is gone, or holds news by itself.
    look.news = look.news || !look.jobs.empty() || look.next.size() != committed_.size();
    return look;
}

void CheckpointWriter::look_at(Look& look, const ScannedFile& file) {
    const auto known = committed_.find(file.path);
    if (known != committed_.end() && known->second.mark == file.mark) {
        look.next.emplace(file.path, known->second);
        return;
    }
    const auto plain = plain_.find(file.path);
    if (plain != plain_.end() && plain->second.mark == file.mark) {
        look.plain.push_back(file.path);
        return;
    }
    if (!place_.has_room_for(file.path)) {
        warn_once(file.path, "its name is too long for a key of object storage");
        return;
    }
    const FolderWatch::State state =
        watch_.with([&](const FolderWatch& watch) { return watch.state(file.path); });
    const auto uploaded = uploaded_.find(file.path);
    if (uploaded != uploaded_.end() && uploaded->second.mark == file.mark &&
        (state == FolderWatch::State::closed || state == FolderWatch::State::unknown)) {
        look.next.emplace(file.path, uploaded->second);
        look.news = true;
        return;
    }
    SendJob job{.path = file.path, .mark = file.mark};
    if (known != committed_.end() && known->second.mark.size == file.mark.size) {
        job.sha256 = known->second.sha256;
        job.sample = known->second.sample;
    }
    job.by_copy = overwritten_.contains(file.path);
    if (may_take(job, state, pinned_)) {
        look.jobs.push_back(std::move(job));
    } else {
        ++look.unfinished;
        keep_previous(look, file.path);
    }
}

bool CheckpointWriter::may_take(SendJob& job, FolderWatch::State state, std::size_t& pinned) {
    if (state == FolderWatch::State::writing || state == FolderWatch::State::torn) return false;
    auto opened = capture([&] { return open_in_tree(sys::open_dir(options_.folder), job.path); });
    if (!opened.ok()) {
        if (opened.error().os_error() == EACCES) warn_once(job.path, "it cannot be read");
        return false;
    }
    sys::Fd file = std::move(opened).value();
    if (mark_of(file.get()) != job.mark) return false;
    if (state == FolderWatch::State::unknown && !nobody_writes(file.get())) return false;
    if (const std::string why = why_torn(file.get(), job.mark.size, job.path); !why.empty()) {
        warn_once(job.path, why);
        return false;
    }
    if (pinned < kPinned) {
        ++pinned;
        job.file = std::move(file);
    }
    return true;
}

void CheckpointWriter::keep_previous(Look& look, const std::string& path) {
    const auto known = committed_.find(path);
    if (known != committed_.end())
        look.next.emplace(path, known->second);
    else if (plain_.contains(path))
        look.plain.push_back(path);
}

CheckpointWriter::Outcome CheckpointWriter::commit(Mode mode, Deadline by,
                                                   const std::stop_token& stop) {
    const Monotonic started = clock_.monotonic();
    Look look = this->look();
    if ((look.unfinished > 0 || look.moved) && mode == Mode::whole) return Outcome::not_whole;
    if (!look.news) return look.unfinished > 0 ? Outcome::not_whole : Outcome::nothing;
    const CheckpointId id{epoch_, ++sequence_, options_.node};
    by = Deadline::earlier(by, time_for(look.jobs));
    store(look, id, by, stop);
    if (look.unfinished > 0 && (mode == Mode::whole || !look.news)) return Outcome::not_whole;
    if (!look.news) return Outcome::nothing;  // the same bytes, written again
    copy_plain(look, id, by, stop);
    const Manifest manifest = manifest_of(look, id);
    const auto client = place_.make_client()();
    client->put(place_.bucket(), place_.key(manifest_key(id)), to_json(manifest), by, stop);

    newest_ = id;
    Written written{id, {}, 0};
    for (const auto& [path, file] : look.next) {
        if (file.data.epoch == epoch_)
            written.data.insert(data_key(file.data, path));
        else
            ++written.inherited;
        uploaded_.erase(path);
    }
    written_.push_back(std::move(written));
    for (const auto& [path, file] : uploaded_) garbage_.push_back(data_key(file.data, path));
    uploaded_.clear();
    plain_.clear();
    committed_ = std::move(look.next);
    watch_.with([](FolderWatch& watch) { watch.forget_closed(); });
    tidy_ = false;
    report(manifest, look, started);
    return look.unfinished > 0 ? Outcome::partly : Outcome::committed;
}

void CheckpointWriter::store(Look& look, const CheckpointId& id, Deadline by,
                             const std::stop_token& stop) {
    const SendPlan plan{place_, id, options_.folder, options_.staging};
    const auto [sent, failure] = send_files(plan, look.jobs, by, stop);
    for (std::size_t i = 0; i < sent.size(); ++i) {
        const SendJob& job = look.jobs[i];
        if (sent[i].what == Sent::What::untried) continue;
        if (sent[i].what == Sent::What::changed) {
            ++look.unfinished;
            overwritten_.insert(job.path);
            garbage_.push_back(data_key(id, job.path));
            keep_previous(look, job.path);
            continue;
        }
        overwritten_.erase(job.path);
        KnownFile file{job.mark, sent[i].sha256, sent[i].sample, id, time_of(job.mark)};
        if (sent[i].what == Sent::What::same) {
            file.data = committed_.at(job.path).data;
            file.modified = committed_.at(job.path).modified;
            committed_.at(job.path) = file;  // the same bytes under a new mark: nothing to tell
        } else {
            look.uploaded += job.mark.size;
            const auto old = uploaded_.find(job.path);
            if (old != uploaded_.end()) garbage_.push_back(data_key(old->second.data, job.path));
            uploaded_.insert_or_assign(job.path, file);
        }
        look.next.insert_or_assign(job.path, std::move(file));
    }
    if (failure) throw *failure;
    look.news = !std::ranges::equal(look.next, committed_, [](const auto& a, const auto& b) {
        return a.first == b.first && a.second.data == b.second.data;
    });
}

void CheckpointWriter::copy_plain(Look& look, const CheckpointId& id, Deadline by,
                                  const std::stop_token& stop) {
    if (look.plain.empty()) return;
    const auto client = place_.make_client()();
    std::vector<SendJob> jobs;
    for (const std::string& path : look.plain) {
        const PlainFile& plain = plain_.at(path);
        const auto copied = capture([&] {
            place_.copy(*client, path, plain.etag, plain.mark.size, data_key(kPlain, path), by,
                        stop);
        });
        const auto there =
            client->head(place_.bucket(), place_.key(data_key(kPlain, path)), by, stop);
        if (there && there->size == plain.mark.size && (copied.ok() || there->etag == plain.etag))
            look.next.insert_or_assign(
                path, KnownFile{plain.mark, plain.sha256, "", kPlain, time_of(plain.mark)});
        else
            jobs.push_back(SendJob{.path = path, .mark = plain.mark});
    }
    const auto [sent, failure] =
        send_files({place_, id, options_.folder, options_.staging}, jobs, by, stop);
    if (failure) throw *failure;
    for (std::size_t i = 0; i < sent.size(); ++i) {
        if (sent[i].what == Sent::What::stored)
            look.next.insert_or_assign(
                jobs[i].path,
                KnownFile{jobs[i].mark, sent[i].sha256, sent[i].sample, id, time_of(jobs[i].mark)});
        else
            ++look.unfinished;
    }
}

Manifest CheckpointWriter::manifest_of(const Look& look, const CheckpointId& id) const {
    Manifest manifest;
    manifest.id = id;
    manifest.job = options_.job;
    manifest.job_id = options_.job_id;
    manifest.attempt = options_.attempt;
    manifest.taken = look.taken;
    manifest.entries.reserve(look.next.size());
    for (const auto& [path, file] : look.next)
        manifest.entries.push_back({path, file.mark.size, file.sha256, file.data, file.modified});
    for (const std::string& path : baseline_) {
        if (!look.next.contains(path)) manifest.removed.push_back(path);
    }
    manifest.step = step_of_tree(manifest);
    return manifest;
}

std::optional<std::int64_t> CheckpointWriter::step_of_tree(const Manifest& manifest) const {
    const auto state = capture([&] {
        return sys::read_file(options_.folder / std::string(kStateFile), Bytes(64u << 10));
    });
    if (state.ok()) {
        if (const auto step = step_of_state(Result<std::string>(state).value())) return step;
    }
    std::optional<std::pair<Instant, std::int64_t>> newest;
    for (const ManifestEntry& entry : manifest.entries) {
        if (!manifest.owns(entry)) continue;
        const auto step = step_of(entry.path);
        if (step && (!newest || *newest < std::pair(entry.modified, *step)))
            newest = {entry.modified, *step};
    }
    if (!newest) return std::nullopt;
    return newest->second;
}

void CheckpointWriter::report(const Manifest& manifest, const Look& look, Monotonic started) {
    plan::CheckpointCommitted committed;
    committed.id = manifest.id.str();
    committed.step = manifest.step;
    committed.bytes = manifest.bytes();
    committed.uploaded = look.uploaded;
    committed.files = static_cast<int>(manifest.entries.size());
    committed.taken = manifest.taken;
    const auto took = std::chrono::duration_cast<milliseconds>(clock_.monotonic() - started);
    options_.say(format("checkpoint {} is complete{}: {} files, {} ({} new) in {:.1f} s",
                        committed.id, manifest.step ? format(", step {}", *manifest.step) : "",
                        committed.files, to_string(Bytes(committed.bytes)),
                        to_string(Bytes(committed.uploaded)),
                        static_cast<double>(took.count()) / 1000));
    options_.on_commit(committed);
}

}  // namespace ty::agent
