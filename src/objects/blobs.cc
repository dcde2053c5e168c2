// SPDX-License-Identifier: Apache-2.0
#include "objects/blobs.h"

#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

namespace ty::objects {
namespace {

constexpr std::size_t kReservedAtOnce = 64;
constexpr std::size_t kNameLength = 26;  // 130 random bits
constexpr std::size_t kMostRemembered = 65536;

/// mkdir that also survives a power cut.
void make_folder(const sys::fs::path& path) {
    if (::mkdir(path.c_str(), 0700) == 0)
        sys::sync_dir(path.parent_path());
    else if (errno != EEXIST)
        throw_errno("create folder {}", path.native());
}

}  // namespace

Blobs::Fresh::~Fresh() {
    if (blobs_ != nullptr) blobs_->remove(name_);
}

Blobs::Blobs(sys::fs::path root, store::Db& db) : root_(std::move(root)), db_(db) {
    make_folder(root_);
    make_folder(root_ / "blobs");
    sweep();
}

sys::fs::path Blobs::path_of(const std::string& name) const {
    return root_ / "blobs" / name.substr(0, 2) / name;
}

void Blobs::sweep() {
    std::size_t found = 0;
    std::vector<std::string> doomed;
    db_.read([&](store::Tx& tx) {
        auto rows = tx.prepare("select blob from doomed_blob");
        while (rows.step()) doomed.push_back(rows.text(0));
    });
    if (doomed.empty()) return;
    for (const std::string& name : doomed) found += ::unlink(path_of(name).c_str()) == 0 ? 1 : 0;
    db_.write([&](store::Tx& tx) { tx.execute("delete from doomed_blob"); });
    if (found != 0) log::info("removed leftovers of interrupted uploads", {{"files", found}});
}

std::string Blobs::reserve() {
    std::string name;
    std::vector<std::string> removed;
    names_.with([&](Names& names) {
        if (names.reserved.empty()) {
            removed.swap(names.removed);
            return;
        }
        name = std::move(names.reserved.back());
        names.reserved.pop_back();
    });
    if (!name.empty()) return name;

    std::vector<std::string> fresh;
    for (std::size_t i = 0; i < kReservedAtOnce; ++i) fresh.push_back(ids_.token(kNameLength));
    db_.write([&](store::Tx& tx) {
        auto forget = tx.prepare("delete from doomed_blob where blob = ?1");
        for (const std::string& gone : removed) forget.bind(1, gone).run();
        auto insert = tx.prepare("insert into doomed_blob (blob) values (?1)");
        for (const std::string& one : fresh) insert.bind(1, one).run();
    });
    name = std::move(fresh.back());
    fresh.pop_back();
    names_.with([&](Names& names) {
        names.reserved.insert(names.reserved.end(), std::make_move_iterator(fresh.begin()),
                              std::make_move_iterator(fresh.end()));
    });
    return name;
}

Blobs::Created Blobs::create() {
    Fresh blob(*this, reserve());
    const auto path = path_of(blob.name());
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = ::open(path.c_str(), kFlags, 0600);
    if (fd < 0 && errno == ENOENT) {
        make_folder(path.parent_path());
        fd = ::open(path.c_str(), kFlags, 0600);
    }
    if (fd < 0) throw_errno("create {}", path.native());
    return {std::move(blob), sys::Fd(fd)};
}

std::optional<Blobs::Fresh> Blobs::link(const std::string& existing) {
    Fresh blob(*this, reserve());
    const auto from = path_of(existing), to = path_of(blob.name());
    make_folder(to.parent_path());
    if (::link(from.c_str(), to.c_str()) != 0) {
        if (errno == ENOENT) return std::nullopt;
        throw_errno("link {} to {}", from.native(), to.native());
    }
    sys::sync_dir(to.parent_path());
    return blob;
}

void Blobs::sync(const Fresh& blob, const sys::Fd& file) const {
    sys::sync_data(file.get());
    sys::sync_dir(path_of(blob.name()).parent_path());
}

void Blobs::cut(const std::string& name, std::uint64_t size) const {
    const auto path = path_of(name);
    const sys::Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    struct stat status {};
    if (!file.is_open() || ::fstat(file.get(), &status) != 0) throw_errno("open {}", path.native());
    const auto have = static_cast<std::uint64_t>(status.st_size);
    if (have < size)
        throw_error(Code::corrupt, "", "{} has {} bytes instead of {}", path.native(), have, size);
    if (have == size) return;
    if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0)
        throw_errno("truncate {}", path.native());
    sys::sync_data(file.get());
}

sys::Fd Blobs::open(const std::string& name) const {
    const auto path = path_of(name);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) throw_errno("open {}", path.native());
    return sys::Fd(fd);
}

void Blobs::adopt(store::Tx& tx, const Fresh& blob) {
    tx.prepare("delete from doomed_blob where blob = ?1").bind(1, blob.name()).run();
}

void Blobs::doom(store::Tx& tx, const std::string& name) {
    tx.prepare("insert or ignore into doomed_blob (blob) values (?1)").bind(1, name).run();
}

void Blobs::remove(const std::string& name) noexcept {
    // What cannot be removed now stays doomed and goes at the next start.
    try {
        const auto path = path_of(name);
        if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
            log::warning("cannot remove a file", {{"path", path.native()}, {"errno", errno}});
            return;
        }
        names_.with([&](Names& names) {
            // Rows forgotten too late cost nothing but an unlink at the next start.
            if (names.removed.size() < kMostRemembered) names.removed.push_back(name);
        });
    } catch (const std::exception& error) {
        log::warning("cannot remove a file", {{"blob", name}, {"error", error.what()}});
    }
}

}  // namespace ty::objects
