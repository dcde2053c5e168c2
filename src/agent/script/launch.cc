// SPDX-License-Identifier: Apache-2.0
#include "agent/script/launch.h"

#include "agent/contract/results.h"
#include "agent/mpi/mpi.h"
#include "agent/own_program.h"
#include "agent/script/distribution.h"
#include "agent/script/environment.h"
#include "agent/script/installer.h"
#include "agent/script/processes.h"
#include "agent/script/source.h"
#include "base/error.h"
#include "base/text.h"

#include <algorithm>

#include <sys/stat.h>

namespace ty::agent {

namespace {

std::string joined_command(const std::vector<std::string>& argv) {
    return join(argv, " ");
}

class Preparation {
public:
    explicit Preparation(const LaunchContext& context)
        : context_(context),
          plan_(context.plan),
          python_(context.plan, context.host, context.runner) {}

    Launch run() {
        if (!plan_.environment.code.empty()) {
            in_context(format("code of environment \"{}\"", plan_.environment.name),
                       [&] { copy_folder(plan_.environment.code, context_.host.code()); });
        }
        const bool own_command = !plan_.entrypoint.empty() ||
                                 !plan_.environment.entrypoint.empty() || !plan_.arguments.empty();
        if (plan_.environment.toolkit && !own_command) return script_mode();
        return container_mode();
    }

private:
    // ---- the container's own command

    Launch container_mode() {
        python_.finish();
        Launch launch;
        launch.run.argv =
            !plan_.entrypoint.empty() ? plan_.entrypoint : plan_.environment.entrypoint;
        if (!plan_.arguments.empty()) {
            launch.run.argv.insert(launch.run.argv.end(), plan_.arguments.begin(),
                                   plan_.arguments.end());
        } else if (plan_.entrypoint.empty()) {
            launch.run.argv.push_back("train");
        }
        launch.run.cwd =
            plan_.environment.code.empty() ? in_root("/") : context_.facts.paths.code();
        launch.run.variables = base_variables();
        if (!python_.packages().empty()) add_python_path(launch.run.variables, {});
        if (plan_.environment.launcher && plan_.entrypoint.empty()) {
            hyperparameters_ = split_hyperparameters(plan_.hyperparameters);
            distribution_ = choose_processes(plan_, hyperparameters_);
            if (distribution_.refusal) return refuse(*distribution_.refusal);
            start_through_launcher(launch.run);
        }
        launch.command = joined_command(launch.run.argv);
        return launch;
    }

    void start_through_launcher(RunSpec& run) const {
        std::vector<std::string> launcher = {std::string(kOwnBin) + "/torchrun"};
        if (context_.runner.rung() != Rung::namespaces)  // there is nothing to show it in
            launcher = {sys::fs::read_symlink("/proc/self/exe").string(), "launch"};
        const std::vector<std::string> front = launcher_command(distribution_, plan_, launcher);
        run.argv.insert(run.argv.begin(), front.begin(), front.end());
        for (const auto& [name, value] :
             launcher_variables(distribution_, plan_, context_.facts.cpus))
            run.variables.set_default(name, value);
        // The built-in programs look there where there can be no /opt/ml.
        if (const std::string& base = context_.facts.paths.base; base != "/opt/ml")
            run.variables.set_default("TRAINYARD_OPT_ML", base);
        // An elastic job is given it in any case.
        if (!front.empty() && !plan_.elastic)
            show_own_program(run, context_.host.scratch(), {"trainyard-agent", "torchrun"});
    }

    /// Without a private root, "/" would be the machine's: the job's own folder is less surprising.
    std::string in_root(const std::string& path) const {
        return context_.runner.rung() == Rung::namespaces ? path : context_.facts.paths.base;
    }

    // ---- script mode

    Launch script_mode() {
        hyperparameters_ = split_hyperparameters(plan_.hyperparameters);
        script_.program = setting("sagemaker_program", "SAGEMAKER_PROGRAM");
        script_.submit = setting("sagemaker_submit_directory", "SAGEMAKER_SUBMIT_DIRECTORY");
        script_.arguments = to_arguments(hyperparameters_.user);
        distribution_ = choose_distribution(plan_, hyperparameters_);
        distribution_.interface = context_.facts.network_interface;
        if (distribution_.refusal) return refuse(*distribution_.refusal);
        if (script_.program.empty()) {
            return refuse(
                "no entry point: neither hyperparameter sagemaker_program nor variable "
                "SAGEMAKER_PROGRAM "
                "is set; pass entry_point (and source_dir) to the estimator");
        }
        try {
            if (!script_.submit.empty()) {
                fetch_source({context_.host, context_.facts.paths.base, context_.make_client,
                              context_.by, context_.orders.halted()},
                             script_.submit);
            }
        } catch (const Error& error) {
            const bool theirs = error.code() == Code::invalid || error.code() == Code::not_found ||
                                (error.code() == Code::exhausted && error.reason() == "BadArchive");
            if (!theirs) throw;
            Launch launch;
            launch.refusal = std::string(
                truncate_utf8(format("ClientError: source code: {}", error.what()), kReasonLimit));
            return launch;
        }
        return start_script();
    }

    Launch start_script() {
        const sys::fs::path code = context_.host.code();
        const bool has_setup = sys::fs::is_regular_file(code / "setup.py");
        const EntryKind kind = entry_kind(script_.program, has_setup);
        if (script_.program.starts_with('/') || script_.program.find("..") != std::string::npos) {
            return fail("ExecuteUserScriptError", 2,
                        format("entry point \"{}\" must be a path inside the source folder",
                               script_.program));
        }
        if (kind != EntryKind::package && !sys::fs::is_regular_file(code / script_.program))
            return missing_entry(code);
        Installer installer(context_, python_);
        if (is_python(kind)) {
            const sys::fs::path requirements = code / "requirements.txt";
            if (sys::fs::is_regular_file(requirements))
                installer.prepare(sys::read_file(requirements, Bytes(4u << 20)));
        }
        python_.finish();
        Launch launch;
        launch.script_mode = true;
        launch.run.cwd = context_.facts.paths.code();
        launch.run.variables = base_variables();
        std::vector<std::string> front = {context_.facts.paths.code()};
        launch.run.variables.merge(
            toolkit_variables(plan_, context_.facts, hyperparameters_, script_));
        launch.run.variables.merge(starter_variables(distribution_));
        add_python_path(launch.run.variables, front);
        if (const auto refusal = refuse_start(kind, launch.run.variables)) return refuse(*refusal);
        const Installer::Result installed =
            installer.install(launch.run.variables, kind == EntryKind::package);
        launch.interrupted = installed.interrupted;
        launch.refusal = installed.failure;
        distribution_.mpi4py = python_.has_package("mpi4py");
        launch.run.argv = command(kind);
        launch.command = joined_command(launch.run.argv);
        if (spans_hosts(distribution_)) span_hosts(launch.run);
        return launch;
    }

    static bool is_python(EntryKind kind) {
        return kind == EntryKind::script || kind == EntryKind::package;
    }

    /// mpirun reaches the other hosts through our own program, and they wait in it.
    void span_hosts(RunSpec& run) const {
        show_own_program(run, context_.host.scratch(), {"trainyard-agent"});
        run.variables.merge(mpi_variables(plan_));
        if (std::vector<std::string> server = mpi_server(distribution_); !server.empty()) {
            run.argv = std::move(server);
        } else {
            const std::vector<std::string> wrapper = mpi_wrapper(distribution_);
            run.argv.insert(run.argv.begin(), wrapper.begin(), wrapper.end());
        }
    }

    std::optional<std::string> refuse_start(EntryKind kind, const Variables& variables) const {
        if (kind == EntryKind::package && distribution_.starter == Starter::torchrun)
            return "torch_distributed cannot start a package; give a .py entry point";
        const std::string* path = variables.find("PATH");
        if (distribution_.starter == Starter::mpi && path != nullptr &&
            !is_on_path("mpirun", *path)) {
            return format(
                "distribution \"mpi\" needs mpirun in the image, and environment \"{}\" "
                "has none in its PATH; install Open MPI or use torch_distributed",
                plan_.environment.name);
        }
        return std::nullopt;
    }

    std::vector<std::string> command(EntryKind kind) const {
        std::vector<std::string> argv;
        switch (kind) {
            case EntryKind::script:
                argv = starter_command(distribution_, plan_, python_.interpreter());
                argv.push_back(script_.program);
                break;
            case EntryKind::package: {
                std::string module = script_.program.ends_with(".py")
                                         ? script_.program.substr(0, script_.program.size() - 3)
                                         : script_.program;
                argv = starter_command(distribution_, plan_, python_.interpreter());
                argv.insert(argv.end(), {"-m", replace_all(module, "/", ".")});
                break;
            }
            case EntryKind::shell:
            case EntryKind::command: {
                (void)::chmod((context_.host.code() / script_.program).c_str(), 0777);
                std::string line = "./" + shell_quote(script_.program);
                for (const std::string& argument : script_.arguments)
                    line += " " + shell_quote(argument);
                if (distribution_.starter == Starter::mpi) argv = mpirun_command(distribution_);
                argv.insert(argv.end(), {"/bin/sh", "-c", line});
                return argv;
            }
        }
        argv.insert(argv.end(), script_.arguments.begin(), script_.arguments.end());
        return argv;
    }

    Launch missing_entry(const sys::fs::path& code) {
        const std::string where =
            script_.submit.empty() ? "in the code folder" : "in the source " + script_.submit;
        return fail("ExecuteUserScriptError", 2,
                    format("entry point \"{}\" is not {}; it holds: {}", script_.program, where,
                           list_folder(code)));
    }

    /// A failure in the toolkit's words, as if its container had said so.
    Launch fail(std::string_view kind, int code, const std::string& message) {
        Launch launch;
        std::vector<std::string> argv = {python_.interpreter(), script_.program};
        argv.insert(argv.end(), script_.arguments.begin(), script_.arguments.end());
        launch.refusal =
            algorithm_error(toolkit_failure(kind, code, message, "", joined_command(argv)), 1);
        return launch;
    }

    static Launch refuse(const std::string& text) {
        Launch launch;
        launch.refusal = algorithm_error(text, 1);
        return launch;
    }

    // ---- variables

    Variables base_variables() const {
        return container_variables(plan_, context_.facts, python_.bin());
    }

    void add_python_path(Variables& variables, std::vector<std::string> folders) const {
        if (const std::string* given = variables.find("PYTHONPATH");
            given != nullptr && !given->empty())
            folders.push_back(*given);
        const std::vector<std::string> packages = python_.packages();
        folders.insert(folders.end(), packages.begin(), packages.end());
        variables.set("PYTHONPATH", join(folders, ":"));
    }

    /// Hyperparameter first, then the request's variable, then the image's.
    std::string setting(std::string_view hyperparameter, std::string_view variable) const {
        if (auto text = hyperparameters_.framework_text(hyperparameter)) return *text;
        std::string found;
        for (const plan::Pairs* pairs : {&plan_.environment.variables, &plan_.variables}) {
            for (const auto& [name, value] : *pairs) {
                if (name == variable) found = value;
            }
        }
        return found;
    }

    const LaunchContext& context_;
    const plan::NodePlan& plan_;
    JobPython python_;
    Hyperparameters hyperparameters_;
    ScriptFacts script_;
    DistributionChoice distribution_;
};

}  // namespace

Launch prepare_launch(const LaunchContext& context) {
    return Preparation(context).run();
}

}  // namespace ty::agent
