// SPDX-License-Identifier: Apache-2.0
#include "agent/script/environment.h"

#include <algorithm>

namespace ty::agent {

JobPython::JobPython(const plan::NodePlan& plan, const HostPaths& host, Runner& runner)
    : plan_(plan), runner_(runner), folder_(host.scratch() / "python") {
    if (plan.environment.python.empty()) return;
    home_ = inspect_python(plan.environment.python);
    if (!home_) return;
    for (const std::string& prefix : home_->prefixes)
        runner.add_bind({prefix, prefix, BoxBind::Access::read_only});
    seen_as_ = runner.seen_as(folder_, "/opt/trainyard/python");
}

void JobPython::add_packages(const std::string& layer) {
    layers_.push_back(layer);
    runner_.add_bind({layer, layer, BoxBind::Access::read_only});
}

void JobPython::finish() {
    if (!home_) return;
    LayerPlan layer;
    layer.folder = folder_;
    layer.seen_as = seen_as_;
    for (const std::string& below : layers_)
        layer.extra_packages.push_back(layer_packages(below, *home_));
    write_layer(*home_, layer);
    runner_.add_bind({folder_.string(), "/opt/trainyard/python", BoxBind::Access::writable});
}

bool JobPython::has_package(const std::string& name) const {
    if (!home_) return false;
    std::vector<std::string> folders = {layer_packages(folder_.string(), *home_)};
    for (const std::string& layer : layers_) folders.push_back(layer_packages(layer, *home_));
    folders.insert(folders.end(), home_->searched.begin(), home_->searched.end());
    return std::ranges::any_of(folders, [&](const std::string& folder) {
        std::error_code failed;
        return sys::fs::is_directory(sys::fs::path(folder) / name, failed);
    });
}

std::string JobPython::interpreter() const {
    if (home_) return seen_as_ + "/bin/python";
    return plan_.environment.python.empty() ? "python3" : plan_.environment.python;
}

std::vector<std::string> JobPython::bin() const {
    std::vector<std::string> all;
    if (home_) all.push_back(seen_as_ + "/bin");
    for (const std::string& layer : layers_) all.push_back(layer + "/bin");
    all.insert(all.end(), plan_.environment.path.begin(), plan_.environment.path.end());
    if (!plan_.environment.python.empty()) {
        all.push_back(sys::fs::path(plan_.environment.python).parent_path().string());
    }
    std::vector<std::string> folders;
    for (std::string& folder : all) {
        if (std::ranges::find(folders, folder) == folders.end())
            folders.push_back(std::move(folder));
    }
    return folders;
}

std::vector<std::string> JobPython::packages() const {
    std::vector<std::string> folders;
    if (!home_) return folders;
    folders.push_back(layer_packages(seen_as_, *home_));
    for (const std::string& layer : layers_) folders.push_back(layer_packages(layer, *home_));
    return folders;
}

}  // namespace ty::agent
