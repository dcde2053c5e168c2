// SPDX-License-Identifier: Apache-2.0
// The training programs that come with Trainyard, found by their folder: <name>.json beside each
// program is written by its build and says which image it is and which folders hold its libraries.
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "images/images.h"
#include "sys/sys.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include <unistd.h>

namespace ty::images {

namespace {

Definition read_definition(const sys::fs::path& file) {
    const Json json = parse_json(sys::read_file(file));
    const sys::fs::path folder = file.parent_path();
    const auto image = json.at("image").get<std::string>();
    const sys::fs::path program = folder / json.at("program").get<std::string>();
    Definition out{.name = image,
                   .match = {image, image + ":*", image + "@*", "*/" + image, "*/" + image + ":*",
                             "*/" + image + "@*"},
                   .readable = json.at("libraries").get<std::vector<std::string>>(),
                   .entrypoint = {program.string()},
                   .toolkit = false,
                   .launcher = true};
    std::error_code ignored;
    for (const std::string& library : out.readable) {
        if (!sys::fs::is_directory(library, ignored))
            out.unusable = format("its LibTorch {} is not there; run make algorithms", library);
    }
    if (::access(program.c_str(), X_OK) != 0)
        out.unusable = format("{} is not there; run make algorithms", program.string());
    const std::string torch = json.value("torch", "");
    out.description = format("built-in program {}{}", program.string(),
                             torch.empty() ? "" : ", LibTorch " + torch);
    out.readable.insert(out.readable.begin(), folder.string());
    return out;
}

}  // namespace

std::vector<Definition> built_in_definitions(const sys::fs::path& folder) {
    std::vector<Definition> out;
    std::error_code failed;
    for (const auto& entry : sys::fs::directory_iterator(folder, failed)) {
        if (entry.path().extension() != ".json") continue;
        try {
            out.push_back(read_definition(entry.path()));
        } catch (const nlohmann::json::exception& error) {
            log::warning("not the description of a built-in program",
                         {{"file", entry.path().string()}, {"error", error.what()}});
        } catch (const Error& error) {
            log::warning("not the description of a built-in program",
                         {{"file", entry.path().string()}, {"error", error.what()}});
        }
    }
    std::ranges::sort(out, {}, &Definition::name);
    return out;
}

}  // namespace ty::images
