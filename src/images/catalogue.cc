// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "images/images.h"
#include "sys/sys.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace ty::images {

namespace {

bool matches(const Definition& definition, const std::string& image) {
    // A bare repository name counts like one behind a registry: globs start with "*/".
    const std::string with_host = image.find('/') == std::string::npos ? "-/" + image : image;
    return std::ranges::any_of(definition.match, [&](const std::string& glob) {
        return ::fnmatch(glob.c_str(), image.c_str(), 0) == 0 ||
               ::fnmatch(glob.c_str(), with_host.c_str(), 0) == 0;
    });
}

/// "pytorch-training" of "<registry>/pytorch-training:2.8"; our own names keep their "trainyard/".
std::string repository_of(std::string_view image) {
    image = image.substr(0, image.find('@'));
    const std::size_t slash = image.rfind('/');
    if (!image.starts_with("trainyard/") && slash != image.npos) image.remove_prefix(slash + 1);
    return std::string(image.substr(0, image.find(':', image.rfind('/') + 1)));
}

const std::string* version_of(const Probe& probe, const std::string& module) {
    for (const auto& [name, version] : probe.modules)
        if (name == module) return &version;
    return nullptr;
}

bool has_all(const Probe& probe, const Definition& definition) {
    return std::ranges::all_of(definition.requires_modules, [&](const std::string& module) {
        return version_of(probe, module) != nullptr;
    });
}

/// Folders below these are part of every sandbox; anything else an interpreter lives in is named.
bool in_system(std::string_view path) {
    return path == "/usr" || path.starts_with("/usr/") || path.starts_with("/lib") ||
           path.starts_with("/bin");
}

void describe(const Definition& definition, const Probe& probe, plan::Environment& environment) {
    environment.description = "Python " + probe.version;
    for (const std::string& module : definition.requires_modules) {
        const std::string* version = version_of(probe, module);
        environment.description += ", " + module;
        if (version != nullptr && !version->empty()) environment.description += " " + *version;
    }
    environment.description += " (" + probe.python + ")";
}

/// "…/venv" and "…/venv/bin/python" both name an interpreter.
std::string interpreter_of(const std::string& configured) {
    std::error_code ignored;
    if (sys::fs::is_directory(configured, ignored)) return configured + "/bin/python";
    return configured;
}

}  // namespace

Catalogue::Catalogue(std::vector<Definition> definitions, std::vector<std::string> interpreters,
                     sys::fs::path algorithms)
    : definitions_(std::move(definitions)), algorithms_(std::move(algorithms)) {
    std::vector<std::string> candidates;
    for (Definition& definition : definitions_) {
        if (definition.python.empty()) continue;
        definition.python = interpreter_of(definition.python);
        candidates.push_back(definition.python);
    }
    candidates.insert(candidates.end(), interpreters.begin(), interpreters.end());
    tasks_.start("probe", [this, candidates](const std::stop_token& stop) {
        std::vector<Probe> probes;
        std::set<std::string> asked;
        for (const std::string& candidate : candidates) {
            if (stop.stop_requested() || !asked.insert(candidate).second) continue;
            if (auto probe = probe_python(candidate)) {
                probe->python = candidate;
                probes.push_back(std::move(*probe));
            }
        }
        answers_.with([&](Answers& answers) { answers = {std::move(probes), true}; });
        answers_.notify();
    });
}

const std::vector<Probe>& Catalogue::probes() const {
    return answers_.wait(
        Deadline::in(seconds(120)), {}, [](const Answers& answers) { return answers.complete; },
        [](const Answers& answers) -> const std::vector<Probe>& { return answers.probes; });
}

namespace {

const Probe* choose(const Definition& definition, const std::vector<Probe>& probes) {
    for (const Probe& probe : probes) {
        if (!definition.python.empty() && probe.python != definition.python) continue;
        if (has_all(probe, definition)) return &probe;
    }
    return nullptr;
}

bool needs_python(const Definition& definition) {
    return !definition.python.empty() || !definition.requires_modules.empty() || definition.toolkit;
}

/// Of one that needs no interpreter.
std::string describe(const Definition& definition) {
    return definition.description.empty() ? "this host's programs" : definition.description;
}

std::string why_unusable(const Definition& definition) {
    const std::string modules = join(definition.requires_modules, " and ");
    if (!definition.python.empty())
        return format("{} does not run{}", definition.python,
                      modules.empty() ? "" : " or cannot import " + modules);
    return modules.empty() ? "no Python was found" : "no Python found that can import " + modules;
}

}  // namespace

/// Configured ones come first, so that a name of ours can be given another meaning.
std::vector<Definition> Catalogue::all_definitions() const {
    std::vector<Definition> all = definitions_;
    for (Definition& built_in : built_in_definitions(algorithms_))
        all.push_back(std::move(built_in));
    return all;
}

std::vector<std::string> Catalogue::nearest_images(const std::string& image) const {
    const std::vector<Definition> all = all_definitions();
    std::vector<std::string> known;
    for (const Definition& definition : all) {
        if (!row_of(definition).usable) continue;
        known.push_back(definition.name);
        for (const std::string& glob : definition.match)
            if (std::string name = repository_of(glob); name.find('*') == std::string::npos)
                known.push_back(std::move(name));
    }
    std::ranges::sort(known);
    known.erase(std::ranges::unique(known).begin(), known.end());
    return nearest(repository_of(image), known, 3);
}

void Catalogue::refuse(const std::string& image) const {
    const std::string nearest = join(nearest_images(image), ", ");
    const bool ours = ("/" + image).find("/trainyard/") != std::string::npos;
    if (ours && !algorithms_.empty()) {
        throw_error(Code::unsupported, "ImageNotMapped",
                    "image \"{}\" is not one of the built-in programs in {}; nearest: {}; build "
                    "them with `make algorithms`",
                    image, algorithms_.string(), nearest);
    }
    throw_error(Code::unsupported, "ImageNotMapped",
                "image \"{}\" is not mapped to an environment of this machine; nearest: {}; "
                "map it with "
                "[[environments]] match = [\"{}\"] in the configuration file",
                image, nearest, image);
}

plan::Environment Catalogue::resolve(const std::string& image) const {
    const std::vector<Definition> all = all_definitions();
    const auto found =
        std::ranges::find_if(all, [&](const Definition& d) { return matches(d, image); });
    if (found == all.end()) refuse(image);
    const Definition& definition = *found;
    if (!definition.unusable.empty())
        throw_error(Code::unsupported, "EnvironmentUnavailable", "image \"{}\" cannot be used: {}",
                    image, definition.unusable);
    plan::Environment environment{.name = definition.name,
                                  .image = image,
                                  .path = definition.path,
                                  .readable = definition.readable,
                                  .variables = definition.variables,
                                  .entrypoint = definition.entrypoint,
                                  .code = definition.code,
                                  .toolkit = definition.toolkit,
                                  .launcher = definition.launcher};
    if (!needs_python(definition)) {
        environment.description = describe(definition);
        return environment;
    }
    const Probe* probe = choose(definition, probes());
    if (probe == nullptr)
        throw_error(Code::unsupported, "EnvironmentUnavailable",
                    "image \"{}\" needs environment \"{}\", but {}; install it into the Python "
                    "that was active at "
                    "`trainyard up`, or set python = \"…\" for environment \"{}\" in the "
                    "configuration file",
                    image, definition.name, why_unusable(definition), definition.name);
    environment.python = probe->python;
    describe(definition, *probe, environment);
    const std::string bin = sys::fs::path(probe->python).parent_path().string();
    environment.path.insert(environment.path.begin(), bin);
    // A venv's own folder, the folder its symbolic link points into, its base installation, and
    // what it imports from elsewhere.
    std::vector<std::string> needed = {sys::fs::path(bin).parent_path().string(), probe->prefix,
                                       probe->base_prefix};
    needed.insert(needed.end(), probe->path.begin(), probe->path.end());
    for (const std::string& folder : needed) {
        const bool covered =
            std::ranges::any_of(environment.readable, [&](const std::string& have) {
                return folder == have || folder.starts_with(have + "/");
            });
        if (!covered && !in_system(folder)) environment.readable.push_back(folder);
    }
    return environment;
}

Catalogue::Row Catalogue::row_of(const Definition& definition) const {
    if (!definition.unusable.empty()) return {definition.name, definition.unusable, false};
    if (!needs_python(definition)) return {definition.name, describe(definition), true};
    const Probe* probe = choose(definition, probes());
    if (probe == nullptr) return {definition.name, why_unusable(definition), false};
    plan::Environment environment;
    describe(definition, *probe, environment);
    return {definition.name, environment.description, true};
}

std::vector<Catalogue::Row> Catalogue::rows() const {
    std::vector<Row> out;
    for (const Definition& definition : all_definitions()) out.push_back(row_of(definition));
    return out;
}

}  // namespace ty::images
