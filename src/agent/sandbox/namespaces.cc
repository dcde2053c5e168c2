// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/namespaces.h"

#include "base/error.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/fd.h"

#include <array>
#include <csignal>

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr int kNamespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;

/// The container default without MKNOD: there is no device cgroup here to keep nodes harmless.
constexpr std::array kKept = {CAP_CHOWN,      CAP_DAC_OVERRIDE,     CAP_FSETID,     CAP_FOWNER,
                              CAP_NET_RAW,    CAP_SETGID,           CAP_SETUID,     CAP_SETFCAP,
                              CAP_SETPCAP,    CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_KILL,
                              CAP_AUDIT_WRITE};

bool setting_is(const char* path, std::string_view value) {
    const Result<std::string> text = capture([&] { return sys::read_file(path); });
    return text.ok() && trim(Result<std::string>(text).value()) == value;
}

/// Why an ordinary user may not have namespaces here, in words of the setting to change.
std::string user_namespace_hint() {
    if (setting_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
        return "; sysctl kernel.unprivileged_userns_clone is 0";
    if (setting_is("/proc/sys/user/max_user_namespaces", "0"))
        return "; sysctl user.max_user_namespaces is 0";
    if (setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")) {
        return "; AppArmor restricts them (sysctl kernel.apparmor_restrict_unprivileged_userns is "
               "1)";
    }
    return "";
}

/// The kernel says that the disk is full when it means one of its limits.
std::string limit_hint(int number) {
    return number == ENOSPC ? "; a limit is reached, raise sysctl user.max_net_namespaces and its "
                              "like"
                            : "";
}

void map_ids(uid_t user, gid_t group) {
    // The kernel wants setgroups off before an unprivileged process may map its group.
    sys::write_file("/proc/self/setgroups", "deny");
    sys::write_file("/proc/self/uid_map", format("0 {} 1\n", user));
    sys::write_file("/proc/self/gid_map", format("0 {} 1\n", group));
}

/// unshare(2), as root of the machine or of a new user namespace.
Privilege unshare_as_root(int namespaces) {
    const uid_t user = ::geteuid();
    const gid_t group = ::getegid();
    if (user == 0 && ::unshare(namespaces) == 0) {
        (void)::setgroups(0, nullptr);
        return Privilege::real_root;
    }
    if (user == 0 && errno != EPERM)
        throw errno_error(errno, "create namespaces" + limit_hint(errno));
    if (::unshare(CLONE_NEWUSER | namespaces) != 0) {
        const int number = errno;
        const std::string hint = user_namespace_hint() + limit_hint(number);
        throw errno_error(number, "create a user namespace" + hint);
    }
    map_ids(user, group);
    return Privilege::user;
}

}  // namespace

Privilege enter_namespaces(int user, int network) {
    if (user >= 0 && ::setns(user, CLONE_NEWUSER) != 0)
        throw_errno("join the user namespace of the job's network");
    if (network >= 0 && ::setns(network, CLONE_NEWNET) != 0) throw_errno("join the job's network");
    if (user < 0) return unshare_as_root(kNamespaces);
    if (::unshare(kNamespaces) != 0) throw_errno("create namespaces");
    return Privilege::user;
}

Privilege enter_network_namespace() {
    return unshare_as_root(CLONE_NEWNET);
}

void drop_rights() {
    std::array<__user_cap_data_struct, 2> data = {};
    for (const int capability : kKept) {
        auto& word = data[static_cast<std::size_t>(capability) / 32];
        word.permitted |= 1u << (capability % 32);
        word.effective |= 1u << (capability % 32);
    }
    for (int capability = 0; capability <= 63; ++capability) {
        const int held = ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
        if (held < 0) break;  // beyond the last one this kernel knows
        if (held == 0) continue;
        const auto& word = data[static_cast<std::size_t>(capability) / 32];
        if ((word.permitted & (1u << (capability % 32))) != 0) continue;
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
            throw_errno("give up capability {}", capability);
    }
    (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> own = {};
    if (::syscall(SYS_capget, &header, own.data()) != 0) throw_errno("read own capabilities");
    // What we never had cannot be kept.
    for (std::size_t i = 0; i < data.size(); ++i) {
        data[i].permitted &= own[i].permitted;
        data[i].effective &= own[i].permitted;
    }
    if (::syscall(SYS_capset, &header, data.data()) != 0) throw_errno("give up capabilities");
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw_errno("set no_new_privs");
}

void die_with_parent() {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        throw_errno("set the parent death signal");
}

void join_cgroup(const std::string& folder) {
    if (!folder.empty()) sys::write_file(folder + "/cgroup.procs", "0");
}

}  // namespace ty::agent
