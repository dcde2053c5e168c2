// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/fetch.h"

#include "agent/checkpoint/choose.h"
#include "agent/contract/layout.h"
#include "agent/transfer/download.h"
#include "agent/transfer/tree.h"
#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>

#include <fcntl.h>

namespace ty::agent {

namespace {

constexpr int kTries = 50;  // each takes a corrupt object, or a change of the storage, away
constexpr std::string_view kData = ".trainyard/data/";

bool is_transient(const Error& error) {
    return error.code() != Code::not_found && error.code() != Code::conflict &&
           error.code() != Code::corrupt && error.code() != Code::invalid;
}

class Fetcher {
public:
    Fetcher(const FetchAsk& ask, Deadline by, const std::stop_token& stop)
        : ask_(ask),
          options_(ask.options),
          place_(ask.place),
          by_(by),
          stop_(stop),
          client_(place_.make_client()()) {}

    Fetched run() {
        make_folders(options_.folder);
        for (int i = 0; i < kTries; ++i) {
            content_ = place_.list_all(*client_, by_, stop_);
            if (i == 0) number_attempts();
            const auto chosen = choose();
            if (!chosen) return without_manifest();
            if (bring(*chosen)) return finish(*chosen);
        }
        throw_error(Code::corrupt, "BadCheckpoint",
                    "no checkpoint of {} could be read in {} tries; the storage returns other "
                    "bytes than it was given",
                    options_.checkpoint.uri, kTries);
    }

private:
    // ---- choosing

    /// Null for what is torn, corrupt, or gone meanwhile.
    const Manifest* load(const CheckpointId& id) {
        const auto found = manifests_.find(id);
        if (found != manifests_.end()) return found->second ? &*found->second : nullptr;
        auto read = capture([&] { return place_.read_manifest(*client_, id, by_, stop_); });
        if (!read.ok() && is_transient(read.error())) throw read.error();
        std::optional<Manifest>& place = manifests_[id];
        if (read.ok()) {
            place = std::move(read).value();
            return &*place;
        }
        why_not_[id] = read.error().message();
        options_.say(format("checkpoint {} is passed over: {}", id.str(), read.error().message()));
        return nullptr;
    }

    /// Ids go on counting where other jobs in this prefix had stopped. Our own manifests, when
    /// there are any, are the newest and tell what was found then.
    void number_attempts() {
        for (auto id = content_.manifests.rbegin(); id != content_.manifests.rend(); ++id) {
            const Manifest* manifest = load(*id);
            if (manifest == nullptr || manifest->job_id != options_.job_id) continue;
            resumed_before_ = true;
            attempts_before_ = std::max<std::int64_t>(0, id->epoch.attempt - manifest->attempt);
            return;
        }
        attempts_before_ = content_.manifests.empty() ? 0 : content_.manifests.back().epoch.attempt;
    }

    std::optional<Epoch> before() const {
        const std::int64_t attempt = attempts_before_ + options_.attempt;
        if (ask_.generation) return Epoch{attempt, ask_.generation->generation};
        if (options_.elastic) return std::nullopt;
        return Epoch{attempt, 0};
    }

    std::optional<Chosen> choose() {
        ChooseFrom from;
        from.ids = content_.manifests;
        from.load = [this](const CheckpointId& id) { return load(id); };
        from.there = [this](const ManifestEntry& entry) {
            const std::string name = name_of(entry);
            const auto object = content_.data.find(name);
            return object != content_.data.end() && object->second.size == entry.size &&
                   !bad_.contains(name);
        };
        from.before = before();
        const std::string& resume = options_.checkpoint.resume;
        if (!resume.empty() && !resumed_before_ && !ask_.generation) return choose_named(from);
        return choose_checkpoint(from, skipped_);
    }

    std::optional<Chosen> choose_named(ChooseFrom from) {
        const std::string& resume = options_.checkpoint.resume;
        from.resume = CheckpointId::parse(resume);
        if (!from.resume || std::ranges::find(from.ids, *from.resume) == from.ids.end())
            throw_error(Code::not_found, "NoSuchCheckpoint",
                        "checkpoint \"{}\" is not in {}; trainyard checkpoints lists what is",
                        to_valid_utf8(resume), options_.checkpoint.uri);
        from.before.reset();
        auto chosen = choose_checkpoint(from, skipped_);
        if (!chosen)
            throw_error(Code::corrupt, "BadCheckpoint",
                        "checkpoint \"{}\" of {} is not valid: {}; choose another one", resume,
                        options_.checkpoint.uri,
                        why_not_.contains(*from.resume) ? why_not_[*from.resume]
                                                        : "bytes of it are missing or corrupt");
        return chosen;
    }

    static std::string name_of(const ManifestEntry& entry) {
        return data_key(entry.data, entry.path).substr(kData.size());
    }

    // ---- bringing

    /// False: something was not as it should be, and is now known to be.
    bool bring(const Chosen& chosen) {
        adopted_ = {};
        staged_.clear();
        downloads_.clear();
        std::vector<const ManifestEntry*> entries;
        for (const auto& [path, entry] : chosen.files) {
            if (take_local(entry)) continue;
            const StoredObject& object = content_.data.at(name_of(entry));
            add_download(path, place_.key(data_key(entry.data, path)), object);
            entries.push_back(&entry);
        }
        if (!download(entries)) return false;
        for (std::size_t i = 0; i < entries.size(); ++i) {
            const ManifestEntry& entry = *entries[i];
            const sys::Fd file = sys::open_read(staged_[i].staged);
            if (digest_file(file.get(), stop_) != entry.sha256) {
                bad_.insert(name_of(entry));
                options_.say(format("checkpoint {}: {} has other bytes than were stored",
                                    entry.data.str(), to_valid_utf8(entry.path)));
                return false;
            }
            adopted_.files[entry.path] = {mark_of(file.get()), entry.sha256, "", entry.data,
                                          entry.modified};
        }
        return true;
    }

    /// True when the folder has these very bytes already.
    bool take_local(const ManifestEntry& entry) {
        const auto opened = capture(
            [&] { return open_in_tree(sys::open_dir(options_.folder), entry.path).release(); });
        if (!opened.ok()) return false;
        const sys::Fd file(Result<int>(opened).value());
        const FileMark mark = mark_of(file.get());
        if (mark.size != entry.size) return false;
        const auto known = ask_.known.find(entry.path);
        const std::string digest = known != ask_.known.end() && known->second.mark == mark
                                       ? known->second.sha256
                                       : digest_file(file.get(), stop_);
        if (digest != entry.sha256) return false;
        adopted_.files[entry.path] = {mark, digest, "", entry.data, entry.modified};
        return true;
    }

    void add_download(const std::string& path, std::string key, const StoredObject& object) {
        const sys::fs::path staged = options_.staging / std::to_string(downloads_.size());
        downloads_.push_back({place_.bucket(), std::move(key), object.etag, object.size, staged});
        staged_.push_back({path, staged});
    }

    bool download(const std::vector<const ManifestEntry*>& entries) {
        if (downloads_.empty()) return true;
        const auto done = capture([&] { transfer(downloads_); });
        if (done.ok()) return true;
        if (is_transient(done.error())) throw done.error();
        // Somebody deleted or replaced an object, or the storage does not give it: which one?
        for (std::size_t i = 0; i < downloads_.size(); ++i) {
            const auto one = capture([&] { transfer({downloads_[i]}); });
            if (one.ok()) continue;
            if (is_transient(one.error())) throw one.error();
            bad_.insert(name_of(*entries[i]));
            options_.say(
                format("checkpoint {}: {}", entries[i]->data.str(), one.error().message()));
        }
        return false;
    }

    void transfer(const std::vector<Download>& downloads) {
        download_all(
            place_.make_client(), downloads, [](const Progress&) {}, by_, stop_);
    }

    // ---- finishing

    Fetched finish(const Chosen& chosen) {
        remove_strangers();
        place_files(options_.folder, staged_);
        Fetched fetched = result();
        fetched.restored.id = chosen.id.str();
        fetched.restored.skipped = chosen.skipped;
        for (const auto& [path, entry] : chosen.files) {
            const auto shown = content_.visible.find(visible_key(path));
            const auto data = content_.data.find(name_of(entry));
            if (shown != content_.visible.end() && shown->second.size == entry.size &&
                shown->second.etag == data->second.etag)
                fetched.adopted.visible[path] = entry.data;
        }
        return fetched;
    }

    /// What the checkpoint does not have is not in the folder either: torn files of a killed
    /// program, and what other nodes have deleted.
    void remove_strangers() {
        std::vector<std::string> strangers;
        for (const ScannedFile& file :
             scan_folder(options_.folder, [](const std::string&, const std::string&) {})) {
            const bool staged =
                std::ranges::binary_search(staged_, file.path, {}, &StagedFile::path);
            if (!staged && !adopted_.files.contains(file.path) &&
                !adopted_.plain.contains(file.path))
                strangers.push_back(file.path);
        }
        if (!strangers.empty()) remove_files(options_.folder, strangers);
    }

    Fetched result() {
        Fetched fetched;
        fetched.adopted = std::move(adopted_);
        fetched.attempts_before = attempts_before_;
        fetched.restored.found = true;
        for (const auto& [path, file] : fetched.adopted.files)
            fetched.restored.bytes += file.mark.size;
        for (const auto& [path, file] : fetched.adopted.plain)
            fetched.restored.bytes += file.mark.size;
        for (const Download& download : downloads_) fetched.restored.downloaded += download.size;
        fetched.restored.files =
            static_cast<int>(fetched.adopted.files.size() + fetched.adopted.plain.size());
        return fetched;
    }

    /// AWS's rule: the prefix is the folder. Where manifests exist that do not count for us, their
    /// names are not the prefix's own.
    Fetched without_manifest() {
        adopted_ = {};
        staged_.clear();
        downloads_.clear();
        Fetched nothing;
        nothing.attempts_before = attempts_before_;
        nothing.restored.skipped = skipped_;
        if (skipped_ > 0) {
            options_.say(
                format("none of the {} checkpoints in {} is valid: the folder starts empty",
                       skipped_, options_.checkpoint.uri));
            return nothing;
        }
        for (const auto& [name, object] : plain_files()) {
            if (!take_plain(name, object)) add_download(name, place_.key(name), object);
        }
        if (!downloads_.empty()) transfer(downloads_);
        for (const StagedFile& file : staged_) {
            const sys::Fd opened = sys::open_read(file.staged);
            adopted_.plain[file.path] = {mark_of(opened.get()), digest_file(opened.get(), stop_),
                                         content_.visible.at(file.path).etag};
        }
        if (ask_.generation) remove_strangers();
        if (adopted_.plain.empty()) return nothing;
        place_files(options_.folder, staged_);
        return result();
    }

    /// True when it lies in the folder since it was restored.
    bool take_plain(const std::string& path, const StoredObject& object) {
        const auto known = ask_.plain.find(path);
        if (known == ask_.plain.end() || known->second.etag != object.etag) return false;
        const auto opened =
            capture([&] { return open_in_tree(sys::open_dir(options_.folder), path).release(); });
        if (!opened.ok()) return false;
        const sys::Fd file(Result<int>(opened).value());
        if (mark_of(file.get()) != known->second.mark) return false;
        adopted_.plain[path] = known->second;
        return true;
    }

    std::map<std::string, StoredObject> plain_files() {
        std::set<std::string> written;
        for (const CheckpointId& id : content_.manifests) {
            const Manifest* manifest = load(id);
            if (manifest == nullptr) continue;
            for (const ManifestEntry& entry : manifest->entries) {
                if (manifest->owns(entry)) written.insert(visible_key(entry.path));
            }
        }
        std::map<std::string, StoredObject> files;
        for (const auto& [name, object] : content_.visible) {
            if (name.ends_with('/') || written.contains(name)) continue;  // a console's "folder"
            if (is_safe_path(name))
                files[name] = object;
            else
                options_.say(format("checkpoint: object {} is left out: it cannot be a file's name",
                                    to_valid_utf8(name)));
        }
        std::erase_if(files, [&](const auto& file) {
            const std::string& path = file.first;
            for (std::size_t slash = path.find('/'); slash != path.npos;
                 slash = path.find('/', slash + 1)) {
                if (files.contains(path.substr(0, slash))) return true;
            }
            return false;
        });
        return files;
    }

    const FetchAsk& ask_;
    const CheckpointOptions& options_;
    const CheckpointPlace& place_;
    const Deadline by_;
    const std::stop_token& stop_;
    const std::unique_ptr<aws::S3Client> client_;

    CheckpointPlace::Content content_;
    std::map<CheckpointId, std::optional<Manifest>> manifests_;
    std::map<CheckpointId, std::string> why_not_;
    std::set<std::string> bad_;
    bool resumed_before_ = false;
    std::int64_t attempts_before_ = 0;
    int skipped_ = 0;

    std::vector<Download> downloads_;
    std::vector<StagedFile> staged_;  ///< of downloads_, sorted by path
    Adopted adopted_;
};

/// Emptied before and after, whatever happens.
class Staging {
public:
    explicit Staging(const sys::fs::path& path) : path_(path) { clear(); }
    ~Staging() { clear(); }
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

private:
    void clear() const {
        std::error_code failed;
        sys::fs::remove_all(path_, failed);
        if (failed)
            log::warning("the staging folder stays",
                         {{"path", path_.string()}, {"error", failed.message()}});
    }
    const sys::fs::path& path_;
};

}  // namespace

Fetched fetch_checkpoint(const FetchAsk& ask, Deadline by, const std::stop_token& stop) {
    const Staging staging(ask.options.staging);
    return Fetcher(ask, by, stop).run();
}

}  // namespace ty::agent
