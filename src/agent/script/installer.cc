// SPDX-License-Identifier: Apache-2.0
#include "agent/script/installer.h"

#include "agent/contract/results.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr seconds kPipLimit{3600};
constexpr const char* kComplete = ".complete";

/// pip's own last words rather than its whole output.
std::string pip_words(const Tail& tail) {
    std::vector<std::string> errors;
    for (const std::string& line : tail.lines()) {
        if (line.starts_with("ERROR:") || line.starts_with("error:")) errors.push_back(line);
    }
    if (errors.size() > 4) errors.erase(errors.begin(), errors.end() - 4);
    return errors.empty() ? meaningful_lines(tail.lines()) : join(errors, "\n");
}

}  // namespace

void Installer::prepare(const std::string& text) {
    const Requirements requirements = parse_requirements(text);
    if (requirements.simple.empty() && !requirements.has_others) return;
    needed_ = true;
    if (!python_.usable()) return;
    if (are_satisfied(requirements, python_.home())) {
        context_.pump.say("requirements.txt: everything is installed already");
        needed_ = false;
        return;
    }
    wheels_ = find_wheels(context_.host.code());
    if (requirements.is_local || context_.cache.empty()) return;
    layer_ = (context_.cache / "requirements" / layer_key(text, python_.home(), wheels_)).string();
    make_folders(layer_);
    python_.add_packages(layer_);
}

Installer::Result Installer::install(const Variables& variables, bool package) {
    if (needed_ && !python_.usable()) {
        context_.pump.say(
            "requirements.txt is ignored: this environment has no Python that pip could install "
            "for");
    } else if (needed_) {
        if (!layer_.empty()) {
            Result result = fill_layer();
            if (result.failure || result.interrupted) return result;
        } else {
            Result result = run_pip({"-r", "requirements.txt"}, python_.interpreter(), {});
            if (result.failure || result.interrupted) return result;
        }
    }
    (void)variables;
    if (package && python_.usable()) return run_pip({"."}, python_.interpreter(), {});
    return {};
}

/// One agent fills a layer, others wait for it. A half-filled one, left by a crash, is emptied
/// first.
Installer::Result Installer::fill_layer() {
    const sys::fs::path folder(layer_);
    const sys::fs::path complete = folder / kComplete;
    sys::FileLock lock;
    for (const Deadline by = Deadline::in(kPipLimit); !sys::fs::exists(complete);) {
        lock = sys::FileLock::try_acquire(folder.string() + ".lock");
        if (lock.is_held()) break;
        if (by.passed())
            throw_error(Code::timed_out, "Requirements",
                        "another job installs the same requirements for too long");
        if (!sys::pause(Deadline::in(100ms), context_.orders.halted())) return {std::nullopt, true};
    }
    if (sys::fs::exists(complete)) {
        context_.pump.say("requirements.txt: installed for an earlier job, taken from the cache");
        return {};
    }
    for (const auto& entry : sys::fs::directory_iterator(folder)) sys::fs::remove_all(entry.path());
    LayerPlan plan;
    plan.folder = folder;
    plan.seen_as = layer_;
    write_layer(python_.home(), plan);
    Result result = run_pip({"-r", "requirements.txt"}, layer_ + "/bin/python",
                            {{layer_, layer_, BoxBind::Access::writable}});
    if (!result.failure && !result.interrupted) sys::write_file_atomically(complete, "");
    return result;
}

Variables Installer::pip_variables(std::vector<BoxBind>& binds) const {
    // The job's proxy and certificates stand in for AWS; the package index is somebody else.
    constexpr std::array<std::string_view, 8> kNotForPip = {
        "http_proxy",         "https_proxy",    "all_proxy",     "no_proxy",
        "requests_ca_bundle", "curl_ca_bundle", "ssl_cert_file", "ssl_cert_dir"};
    Variables variables;
    const Variables all = container_variables(context_.plan, context_.facts, python_.bin());
    for (const auto& [name, value] : all.pairs()) {
        if (std::ranges::find(kNotForPip, to_lower(name)) == kNotForPip.end())
            variables.set(name, value);
    }
    // The host's pip settings, and the places they name.
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos || !text.starts_with("PIP_")) continue;
        variables.set_default(std::string(text.substr(0, equals)),
                              std::string(text.substr(equals + 1)));
        for (std::string word : split(text.substr(equals + 1), ' ')) {
            if (word.starts_with("file://")) word = word.substr(7);
            if (word.starts_with('/')) binds.push_back({word, word, BoxBind::Access::read_only});
        }
    }
    std::erase_if(binds, [](const BoxBind& bind) {
        std::error_code failed;
        return bind.access == BoxBind::Access::read_only && !sys::fs::exists(bind.source, failed);
    });
    if (const char* home = std::getenv("HOME");
        variables.find("PIP_CONFIG_FILE") == nullptr && home != nullptr) {
        for (const char* name : {"/.config/pip/pip.conf", "/.pip/pip.conf"}) {
            const std::string file = std::string(home) + name;
            if (!sys::fs::is_regular_file(file)) continue;
            const sys::fs::path copy = context_.host.scratch() / "root" / "pip.conf";
            sys::write_file(copy, sys::read_file(file, Bytes(1u << 20)), 0600);
            variables.set("PIP_CONFIG_FILE", context_.runner.seen_as(copy, "/root/pip.conf"));
            break;
        }
    }
    variables.set_default("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    variables.set_default("PIP_NO_INPUT", "1");
    variables.set_default("PIP_ROOT_USER_ACTION", "ignore");
    return variables;
}

Installer::Result Installer::run_pip(std::vector<std::string> arguments,
                                     const std::string& interpreter, std::vector<BoxBind> binds) {
    RunSpec spec;
    spec.variables = pip_variables(binds);
    if (!context_.cache.empty() && spec.variables.find("PIP_CACHE_DIR") == nullptr) {
        const std::string cache = (context_.cache / "pip").string();
        make_folders(cache);
        binds.push_back({cache, cache, BoxBind::Access::writable});
        spec.variables.set("PIP_CACHE_DIR", cache);
    }
    spec.binds = std::move(binds);
    spec.cwd = context_.facts.paths.code();
    std::vector<std::string> base = {interpreter, "-m", "pip", "install"};
    std::set<std::string> folders;
    for (const std::string& wheel : wheels_) {
        const sys::fs::path inside =
            sys::fs::path(wheel).parent_path().lexically_relative(context_.host.code());
        folders.insert(
            (sys::fs::path(context_.facts.paths.code()) / inside).lexically_normal().string());
    }
    for (const std::string& folder : folders) base.insert(base.end(), {"--find-links", folder});
    base.insert(base.end(), arguments.begin(), arguments.end());
    context_.pump.say(format("installing: {}", join(base, " ")));
    RunEnd end;
    // Wheels brought along may be all there is: asking an index first could mean minutes of
    // retries.
    for (const bool offline : {true, false}) {
        if (offline && wheels_.empty()) continue;
        spec.argv = base;
        if (offline) spec.argv.push_back("--no-index");
        end = context_.runner.run(spec, Deadline::in(kPipLimit), 5s);
        if (end.why != RunEnd::Why::ended || (end.box.exit && end.box.exit->ok())) break;
        if (offline)
            context_.pump.say("the wheels in the source do not suffice; asking the package index");
    }
    if (end.why == RunEnd::Why::stopped || end.why == RunEnd::Why::gone)
        return {std::nullopt, true};
    if (end.box.exit && end.box.exit->ok()) return {};
    std::string words = end.box.failure.empty() ? pip_words(end.tail) : end.box.failure;
    if (end.why == RunEnd::Why::timed_out) words = "pip did not end within an hour";
    const int code = end.box.exit ? end.box.exit->shell_code() : 1;
    return {algorithm_error(
                toolkit_failure("InstallRequirementsError", code, words, "", join(base, " ")), 1),
            false};
}

}  // namespace ty::agent
