// SPDX-License-Identifier: Apache-2.0
#include "cli/render.h"
#include "cli/verb.h"

namespace ty::cli {

namespace {

int run_completion(const Invocation& invocation) {
    print(completion_script(all_verbs(), invocation.argument("SHELL")));
    return kOk;
}

}  // namespace

Verb completion_verb() {
    return {.name = "completion",
            .summary = "print the completion script: source <(trainyard completion bash)",
            .arguments = {{.name = "SHELL", .help = "bash or zsh", .choices = {"bash", "zsh"}}},
            .run = run_completion};
}

}  // namespace ty::cli
