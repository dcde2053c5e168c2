// SPDX-License-Identifier: Apache-2.0
// Mount descriptors (open_tree, mount_setattr, move_mount; Linux 5.12) rather than paths: a source
// is taken before anything covers it, and a whole tree becomes read-only in one call.
#include "agent/sandbox/mounts.h"

#include "base/error.h"
#include "base/text.h"
#include "sys/fd.h"

#include <array>
#include <climits>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr std::array<const char*, 8> kSystemFolders = {"usr",   "bin",   "sbin",   "lib",
                                                       "lib32", "lib64", "libx32", "etc"};
constexpr std::array<const char*, 7> kDevices = {"null",    "zero", "full", "random",
                                                 "urandom", "tty",  "fuse"};
/// Places where uid 0 without a user namespace could change or read the whole machine.
constexpr std::array<const char*, 5> kReadOnlyProc = {"sys", "irq", "bus", "fs", "sysrq-trigger"};
constexpr std::array<const char*, 7> kCovered = {
    "/proc/kcore",  "/proc/keys",    "/etc/shadow",          "/etc/shadow-",
    "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd"};
constexpr std::array<const char*, 3> kHidden = {"/etc/ssh", "/etc/ssl/private", "/sys/firmware"};

/// A detached copy of a mount tree; gone when closed unless it was placed.
class Tree {
public:
    static Tree clone(const std::string& source) {
        const int fd = ::open_tree(AT_FDCWD, source.c_str(),
                                   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        if (fd < 0) throw_errno("take {} into the box", source);
        return Tree(sys::Fd(fd), source);
    }
    static Tree tmpfs(const std::string& name, const std::string& options);

    Tree& set(std::uint64_t attributes) {
        mount_attr attr = {};
        attr.attr_set = attributes;
        if (::mount_setattr(fd_.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) != 0) {
            throw_errno("restrict the mount of {}", name_);
        }
        return *this;
    }
    void place(int at, const std::string& target) {
        if (::move_mount(fd_.get(), "", at, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
            throw_errno("mount {} at {}", name_, target);
        }
    }

private:
    Tree(sys::Fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
    sys::Fd fd_;
    std::string name_;
};

bool exists(const std::string& path) {
    struct stat info = {};
    return ::lstat(path.c_str(), &info) == 0;
}

bool is_folder(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string read_link(const std::string& path) {
    std::array<char, PATH_MAX> buffer;
    const ssize_t length = ::readlink(path.c_str(), buffer.data(), buffer.size());
    return length < 0 ? std::string()
                      : std::string(buffer.data(), static_cast<std::size_t>(length));
}

std::string read_if_there(const std::string& path) {
    const sys::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info = {};
    if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
    std::string text(64u << 10, '\0');
    const ssize_t got = ::read(file.get(), text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
}

class Root {
public:
    Root(const BoxPlan& plan, Privilege privilege) : plan_(plan), privilege_(privilege) {}

    void build() {
        // Nothing done here may reach the host's mounts.
        if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
            throw_errno("make mounts private");
        std::vector<std::pair<Tree, std::string>> binds;
        for (const BoxBind& bind : plan_.binds) {
            Tree tree = Tree::clone(bind.source);
            tree.set(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                     (bind.access == BoxBind::Access::read_only ? MOUNT_ATTR_RDONLY : 0));
            binds.emplace_back(std::move(tree), bind.target);
        }
        const std::vector<std::pair<std::string, std::string>> network = network_files();
        mount_at("tmpfs", plan_.root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=512m");
        root_ = sys::open_dir(plan_.root);
        for (const char* name : kSystemFolders) system_folder(name);
        for (const char* name :
             {"proc", "sys", "dev", "tmp", "var", "var/tmp", "var/log", "var/lib", "var/cache",
              "run", "run/lock", "root", "home", "opt", "opt/ml", "mnt", "media", "srv"}) {
            folder(name);
        }
        for (const char* name : {"tmp", "var/tmp", "run/lock"}) {
            if (::fchmodat(root_.get(), name, 01777, 0) != 0) throw_errno("open /{} to all", name);
        }
        link("../run", "var/run");
        mount_at("proc", plan_.root + "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
        system_information();
        devices();
        for (auto& [tree, target] : binds) {
            make_target(target, target_is_folder(target));
            tree.place(root_.get(), target.substr(1));
        }
        for (const auto& [path, content] : network) cover(path, content);
        for (const auto& [path, content] : plan_.files) file(path, content);
        if (privilege_ == Privilege::real_root) cover_host();
        enter();
    }

private:
    /// Host name files with the box's own content. resolv.conf is often a link into /run, which is
    /// private here: its content is put where the link points.
    std::vector<std::pair<std::string, std::string>> network_files() const {
        std::vector<std::pair<std::string, std::string>> files;
        files.emplace_back("/etc/hostname", plan_.host + "\n");
        files.emplace_back("/etc/hosts", hosts_file());
        if (const std::string target = read_link("/etc/resolv.conf"); !target.empty()) {
            const std::string path =
                target.front() == '/' ? target
                                      : sys::fs::path("/etc/" + target).lexically_normal().string();
            files.emplace_back(path, read_if_there("/etc/resolv.conf"));
        }
        return files;
    }

    /// The host's own entries stay reachable. 127.0.0.1 is us, except among several hosts: what
    /// binds to its own name there must be reachable for the others.
    std::string hosts_file() const {
        const std::string own = plan_.addresses.empty() ? " " + plan_.host : std::string();
        std::string text =
            format("127.0.0.1 localhost{}\n::1 localhost ip6-localhost ip6-loopback\n", own);
        for (const auto& [host, address] : plan_.addresses)
            text += format("{} {}\n", address, host);
        for (const std::string& line : split(read_if_there("/etc/hosts"), '\n')) {
            const std::string_view entry = trim(line);
            if (entry.empty() || entry.starts_with('#') || entry.starts_with("127.") ||
                entry.starts_with("::1"))
                continue;
            text += std::string(entry) + "\n";
        }
        return text;
    }

    void mount_at(const char* source, const std::string& target, const char* type,
                  unsigned long flags, const char* options) {
        if (::mount(source, target.c_str(), type, flags, options) != 0)
            throw_errno("mount {} at {}", type, target);
    }
    void folder(const std::string& path) {
        if (::mkdirat(root_.get(), path.c_str(), 0755) != 0 && errno != EEXIST)
            throw_errno("create /{} in the box", path);
    }
    void link(const char* target, const char* path) {
        if (::symlinkat(target, root_.get(), path) != 0 && errno != EEXIST)
            throw_errno("create link /{} in the box", path);
    }
    /// Parents and the mount point itself.
    void make_target(const std::string& target, bool as_folder) {
        for (std::size_t slash = target.find('/', 1); slash != std::string::npos;
             slash = target.find('/', slash + 1)) {
            folder(target.substr(1, slash - 1));
        }
        if (as_folder) {
            folder(target.substr(1));
            return;
        }
        const sys::Fd made(::openat(root_.get(), target.c_str() + 1,
                                    O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
        if (!made.is_open() && errno != EROFS) throw_errno("create {} in the box", target);
    }
    bool target_is_folder(const std::string& target) const {
        for (const BoxBind& bind : plan_.binds) {
            if (bind.target == target) return is_folder(bind.source);
        }
        return true;
    }

    void system_folder(const char* name) {
        const std::string path = std::string("/") + name;
        const std::string target = read_link(path);
        if (!target.empty()) {
            link(target.c_str(), name);
        } else if (is_folder(path)) {
            folder(name);
            Tree::clone(path)
                .set(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)
                .place(root_.get(), name);
        }
    }

    /// The machine's /sys; in a network of its own, where that is allowed, one that shows the
    /// interfaces of that network.
    void system_information() {
        constexpr std::uint64_t kPassive =
            MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
        const bool own = plan_.joins_network &&
                         ::mount("sysfs", (plan_.root + "/sys").c_str(), "sysfs",
                                 MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
        if (!own) {
            Tree::clone("/sys").set(kPassive).place(root_.get(), "sys");
        } else if (exists(plan_.root + "/sys/fs/cgroup")) {
            Tree::clone("/sys/fs/cgroup").set(kPassive).place(root_.get(), "sys/fs/cgroup");
        }
    }

    void device(const std::string& name) {
        const std::string source = "/dev/" + name;
        if (!exists(source)) return;
        make_target(source, is_folder(source));
        Tree::clone(source).place(root_.get(), source.substr(1));
    }

    void devices() {
        for (const char* name : kDevices) device(name);
        if (plan_.gpus) nvidia_devices();
        folder("dev/shm");
        folder("dev/pts");
        const std::string size = format("mode=1777,size={}", plan_.shared_memory.count());
        mount_at("shm", plan_.root + "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, size.c_str());
        // Terminals are a convenience; a machine without them still trains.
        if (::mount("devpts", (plan_.root + "/dev/pts").c_str(), "devpts", MS_NOSUID | MS_NOEXEC,
                    "newinstance,ptmxmode=0666,mode=0620") == 0) {
            link("pts/ptmx", "dev/ptmx");
        }
        link("/proc/self/fd", "dev/fd");
        link("/proc/self/fd/0", "dev/stdin");
        link("/proc/self/fd/1", "dev/stdout");
        link("/proc/self/fd/2", "dev/stderr");
    }

    void nvidia_devices() {
        DIR* dir = ::opendir("/dev");
        if (dir == nullptr) return;
        std::vector<std::string> names;
        while (const dirent* entry = ::readdir(dir)) {
            if (std::string_view(entry->d_name).starts_with("nvidia"))
                names.emplace_back(entry->d_name);
        }
        ::closedir(dir);
        for (const std::string& name : names) device(name);
    }

    /// A file of ours in the root: written there, or mounted over one in a read-only tree.
    void cover(const std::string& path, const std::string& content) {
        make_quietly(path);
        const sys::Fd plain(
            ::openat(root_.get(), path.c_str() + 1, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW));
        if (plain.is_open() && !in_system_folder(path)) {
            sys::write_all(plain.get(), content);
            return;
        }
        if (!exists(plan_.root + path)) return;  // nothing to cover, and the tree is read-only
        folder(".box");
        const std::string own = format(".box/{}", ++covers_);
        const sys::Fd made(
            ::openat(root_.get(), own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
        if (!made.is_open()) throw_errno("create /{} in the box", own);
        sys::write_all(made.get(), content);
        Tree::clone(plan_.root + "/" + own).place(root_.get(), path.substr(1));
    }
    void make_quietly(const std::string& path) {
        if (!in_system_folder(path)) make_target(path, false);
    }
    static bool in_system_folder(const std::string& path) {
        for (const char* name : kSystemFolders) {
            if (path.starts_with(std::string("/") + name + "/")) return true;
        }
        return false;
    }

    void file(const std::string& path, const std::string& content) {
        if (!path.starts_with('/') || path.find("/../") != std::string::npos) {
            throw_error(Code::invalid, "BadPath",
                        "file {} for the program must have an absolute path", path);
        }
        if (in_system_folder(path) && !exists(plan_.root + path)) {
            throw_error(Code::invalid, "BadPath",
                        "file {} for the program lies in a read-only folder; choose another", path);
        }
        cover(path, content);
    }

    void cover_host() {
        for (const char* name : kReadOnlyProc) {
            const std::string path = plan_.root + "/proc/" + name;
            if (exists(path))
                Tree::clone(path)
                    .set(MOUNT_ATTR_RDONLY)
                    .place(root_.get(), std::string("proc/") + name);
        }
        for (const char* path : kCovered) {
            if (exists(plan_.root + path)) Tree::clone("/dev/null").place(root_.get(), path + 1);
        }
        for (const char* path : kHidden) {
            if (is_folder(plan_.root + path)) {
                mount_at("tmpfs", plan_.root + path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV,
                         "size=4k,mode=555");
            }
        }
    }

    void enter() {
        if (::fchdir(root_.get()) != 0) throw_errno("enter the box");
        if (::syscall(SYS_pivot_root, ".", ".") != 0) throw_errno("make the box the root");
        if (::umount2(".", MNT_DETACH) != 0) throw_errno("let go of the host's root");
        if (::chdir("/") != 0) throw_errno("enter the box's root");
    }

    const BoxPlan& plan_;
    const Privilege privilege_;
    sys::Fd root_;
    int covers_ = 0;
};

}  // namespace

void build_root(const BoxPlan& plan, Privilege privilege) {
    Root(plan, privilege).build();
}

}  // namespace ty::agent
