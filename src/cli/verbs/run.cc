// SPDX-License-Identifier: Apache-2.0
// `trainyard run`: torchrun's command line, executed by the agent beside this program. No daemon is
// asked; the process becomes the launcher.
#include "base/error.h"
#include "cli/home.h"
#include "cli/verb.h"

#include <unistd.h>

namespace ty::cli {

namespace {

int run_launcher(const Invocation& invocation) {
    const std::string agent = sibling_binary("trainyard-agent").string();
    std::vector<std::string> words{agent, "launch"};
    words.insert(words.end(), invocation.words.begin(), invocation.words.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(agent.c_str(), argv.data());
    throw_errno("run {}", agent);
}

}  // namespace

Verb run_verb() {
    return {.name = "run",
            .summary = "start training workers on this node, as torchrun does (run --help)",
            .run = run_launcher,
            .own_grammar = true};
}

}  // namespace ty::cli
