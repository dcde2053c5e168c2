// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi.h"
#include "agent/progress_file.h"
#include "agent/sandbox/box_plan.h"
#include "agent/sandbox/cgroup.h"
#include "agent/script/distribution.h"
#include "agent/script/processes.h"
#include "agent/script/python_layer.h"
#include "agent/script/requirements.h"
#include "agent/script/source.h"
#include "agent/uplink.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::agent;
namespace fs = sys::fs;

namespace {

/// A base interpreter and a virtual environment of it, as files.
struct FakePython {
    sys::TempDir dir;
    fs::path base = dir.path() / "base";
    fs::path env = dir.path() / "env";
    FakePython() {
        fs::create_directories(base / "bin");
        fs::create_directories(base / "lib/python3.11/site-packages/six-1.16.0.dist-info");
        sys::write_file(base / "bin/python3.11", "", 0755);
        fs::create_directories(env / "bin");
        fs::create_directories(env /
                               "lib/python3.11/site-packages/Typing_Extensions-4.8.0.dist-info");
        fs::create_symlink(base / "bin/python3.11", env / "bin/python");
        sys::write_file(env / "bin/torchrun", "#!/usr/bin/python\n", 0755);
        sys::write_file(env / "pyvenv.cfg",
                        "home = " + (base / "bin").string() +
                            "\ninclude-system-site-packages = true\nversion = 3.11.4\n");
    }
    PythonHome inspect() const { return inspect_python((env / "bin/python").string()).value(); }
};

}  // namespace

TEST_CASE("an interpreter is understood from the files around it") {
    const FakePython fake;
    const PythonHome python = fake.inspect();
    CHECK(python.version == "3.11");
    CHECK(python.base == (fake.base / "bin/python3.11").string());
    CHECK(python.base_packages);
    CHECK(python.site_packages ==
          std::vector<std::string>{(fake.env / "lib/python3.11/site-packages").string()});
    const auto bare = inspect_python((fake.base / "bin/python3.11").string());
    REQUIRE(bare.has_value());
    CHECK(bare->site_packages.empty());
    CHECK_FALSE(inspect_python("/nonexistent/python").has_value());
    CHECK_FALSE(inspect_python("python3").has_value());
}

TEST_CASE("a layer inherits the environment and starts its launchers with its own interpreter") {
    const FakePython fake;
    const fs::path layer = fake.dir.path() / "layer";
    const LayerPlan plan = {
        layer, "/opt/trainyard/python", {"/cache/x/lib/python3.11/site-packages"}};
    write_layer(fake.inspect(), plan);
    write_layer(fake.inspect(), plan);
    CHECK(fs::read_symlink(layer / "bin/python") == (fake.base / "bin/python3.11"));
    CHECK(sys::read_file(layer / "bin/pip")
              .find("exec \"/opt/trainyard/python/bin/python\" -m pip") != std::string::npos);
    CHECK(sys::read_file(layer / "bin/torchrun").find((fake.env / "bin/torchrun").string()) !=
          std::string::npos);
    const std::string inherited =
        sys::read_file(layer / "lib/python3.11/site-packages/inherited.pth");
    CHECK(inherited.find("/cache/x/") < inherited.find("/env/lib"));
}

TEST_CASE("a real interpreter starts through a layer") {
    const auto python = inspect_python("/usr/bin/python3");
    if (!python) {
        MESSAGE("skipped: no /usr/bin/python3");
        return;
    }
    const sys::TempDir dir;
    write_layer(*python, {dir.path() / "layer", (dir.path() / "layer").string(), {}});
    const sys::Output out = sys::run({.argv = {(dir.path() / "layer/bin/python").string(), "-c",
                                               "import sys; print(sys.prefix)"}},
                                     Deadline::in(seconds(60)));
    CHECK_MESSAGE(out.exit.ok(), out.text);
    CHECK(out.text == (dir.path() / "layer").string() + "\n");
}

TEST_CASE("requirements are satisfied only when that is certain") {
    const FakePython fake;
    const PythonHome python = fake.inspect();
    const auto satisfied = [&](std::string_view text) {
        return are_satisfied(parse_requirements(text), python);
    };
    CHECK(satisfied("six\n# comment\n\ntyping-extensions >=4.0,<5  # why\n"));
    CHECK(satisfied("six==1.16.0"));
    CHECK(satisfied("six==1.16"));
    CHECK_FALSE(satisfied("six==1.17"));
    CHECK_FALSE(satisfied("six!=1.16.0"));
    CHECK_FALSE(satisfied("absent"));
    CHECK_FALSE(satisfied("six[extra]"));
    CHECK_FALSE(satisfied("six; python_version > '3'"));
    CHECK_FALSE(satisfied("six @ https://example.org/six.whl"));
    CHECK_FALSE(satisfied("-r other.txt"));
    CHECK_FALSE(satisfied("six~=1.16"));
    CHECK(parse_requirements("./local").is_local);
    CHECK(parse_requirements("-e .").is_local);
    CHECK_FALSE(parse_requirements("six>=1").is_local);
}

TEST_CASE("a cached layer is named by everything that decides its content") {
    const FakePython fake;
    const PythonHome python = fake.inspect();
    const std::string key = layer_key("six", python, {});
    CHECK(key == layer_key("six", python, {}));
    CHECK(key != layer_key("six==1", python, {}));
    CHECK(key != layer_key("six", python, {"/x/six.whl"}));
}

TEST_CASE("versions compare by number") {
    CHECK(compare_versions("1.10", "1.9") == 1);
    CHECK(compare_versions("1.0", "1") == 0);
    CHECK(compare_versions("2.1.0+cpu", "2.1") == 0);
    CHECK_FALSE(compare_versions("1.0rc1", "1.0").has_value());
}

TEST_CASE("the kind of an entry point is decided as the toolkit does") {
    CHECK(entry_kind("run.sh", true) == EntryKind::shell);
    CHECK(entry_kind("train.py", true) == EntryKind::package);
    CHECK(entry_kind("train.py", false) == EntryKind::script);
    CHECK(entry_kind("launch", false) == EntryKind::command);
}

TEST_CASE("a box plan survives its way, whatever bytes are in it") {
    BoxPlan plan;
    plan.rung = Rung::process;
    plan.root = "/r";
    plan.binds = {{"/a", "/b", BoxBind::Access::writable}};
    plan.files = {{"/x", std::string("\xff\0y", 3)}};
    plan.argv = {"sh", "\xfe"};
    plan.env = {"A=\n"};
    plan.shared_memory = Bytes(5);
    plan.gpus = true;
    const BoxPlan back = box_plan_from_json(to_json(plan));
    CHECK(back.rung == plan.rung);
    CHECK(back.argv == plan.argv);
    CHECK(back.env == plan.env);
    CHECK(back.files == plan.files);
    CHECK(back.binds[0].access == BoxBind::Access::writable);
    CHECK(back.gpus);
    const BoxReport report = box_report_from_text(
        to_text({.kind = BoxReport::Kind::failed, .missing = 2, .text = "run x: no"}));
    CHECK(report.missing == 2);
    CHECK(report.text == "run x: no");
    CHECK(box_report_from_text("nonsense").kind == BoxReport::Kind::failed);
}

TEST_CASE("limits go to a cgroup where one can be made, else it is said why not") {
    const sys::TempDir dir;
    CHECK_FALSE(Cgroup::create("j", {}, dir.path()).is_open());
    const CgroupLimits limits = {.memory = Bytes(1u << 20), .cpus = 2, .processes = 7};
    CHECK(Cgroup::create("j", limits, dir.path()).why_not().find("no cgroup v2") !=
          std::string::npos);
    sys::write_file(dir.path() / "self", "0::/user/me\n");
    sys::write_file(dir.path() / "cgroup.controllers", "");
    CHECK(Cgroup::create("j", limits, dir.path(), dir.path() / "self")
              .why_not()
              .find("not offered") != std::string::npos);
    sys::write_file(dir.path() / "vmstat", "a 1\noom_kill 12\n");
    CHECK(machine_oom_kills(dir.path() / "vmstat") == 12);
}

TEST_CASE("a torn event at the end of the spool is cut off") {
    const sys::TempDir dir;
    const fs::path path = dir.path() / "events";
    plan::Event event;
    event.seq = 1;
    event.host = "algo-1";
    event.payload = plan::PhaseChanged{plan::Phase::training, "x"};
    {
        EventSpool spool(path);
        spool.append(event);
    }
    sys::write_file(dir.path() / "torn", sys::read_file(path) + "{\"seq\":2,\"ti");
    EventSpool spool(dir.path() / "torn");
    REQUIRE(spool.loaded().size() == 1);
    CHECK_FALSE(spool.has_finished());
    event.seq = 2;
    event.payload = plan::Finished{};
    spool.append(event);
    const EventSpool again(dir.path() / "torn");
    CHECK(again.loaded().size() == 2);
    CHECK(again.has_finished());
}

namespace {

using Words = std::vector<std::string>;

/// The command of `host` among three, with these settings.
Words started_on(const std::string& host, plan::Pairs settings, bool elastic = false) {
    plan::NodePlan plan;
    plan.hosts = {"algo-1", "algo-2", "algo-3"};
    plan.host = host;
    if (elastic) plan.elastic.emplace();
    const Hyperparameters split = split_hyperparameters(settings);
    const DistributionChoice choice = choose_distribution(plan, split);
    if (choice.refusal) return {"refused", *choice.refusal};
    return starter_command(choice, plan, "python");
}

}  // namespace

TEST_CASE("a distribution starts the script as the framework images do") {
    CHECK(started_on("algo-2", {}) == Words{"python"});
    const Words torchrun = {"python",
                            "-m",
                            "torch.distributed.run",
                            "--nnodes",
                            "3",
                            "--nproc_per_node",
                            "2",
                            "--master_addr",
                            "algo-1",
                            "--master_port",
                            "7777",
                            "--node_rank",
                            "1"};
    const std::pair<std::string, std::string> two = {"sagemaker_mpi_num_of_processes_per_host",
                                                     "2"};
    CHECK(started_on("algo-2", {{"sagemaker_torch_distributed_enabled", "true"}, two}) == torchrun);
    CHECK(started_on("algo-2", {{"sagemaker_pytorch_ddp_enabled", "true"}, two}) == torchrun);
    CHECK(started_on("algo-2", {{"sagemaker_torch_distributed_enabled", "true"},
                                {"sagemaker_distribution_instance_groups", "[\"other\"]"}}) ==
          Words{"python"});
    CHECK(started_on("algo-2", {{"sagemaker_torch_distributed_enabled", "true"}, two}, true) ==
          Words{"torchrun", "--nproc_per_node", "2"});
    CHECK(started_on("algo-2", {}, true) == Words{"torchrun"});
}

TEST_CASE(
    "a program of its own is started by our launcher where several processes train together") {
    const auto command = [](plan::NodePlan plan, const plan::Pairs& given) {
        const DistributionChoice choice = choose_processes(plan, split_hyperparameters(given));
        if (choice.refusal) return Words{*choice.refusal};
        return launcher_command(choice, plan, {"torchrun"});
    };
    plan::NodePlan alone;
    alone.hosts = {"algo-1"};
    alone.host = "algo-1";
    CHECK(command(alone, {{"epochs", "3"}}).empty());
    CHECK(command(alone, {{"processes_per_host", "1"}}).empty());
    const Words two = {"torchrun", "--nproc_per_node", "2", "--no-python"};
    CHECK(command(alone, {{"processes_per_host", "\"2\""}}) == two);
    CHECK(command(alone, {{"sagemaker_torch_distributed_enabled", "true"},
                          {"sagemaker_mpi_num_of_processes_per_host", "2"}}) == two);
    CHECK(command(alone, {{"sagemaker_torch_distributed_enabled", "true"}}) ==
          Words{"torchrun", "--nproc_per_node", "1", "--no-python"});
    CHECK(command(alone, {{"processes_per_host", "none"}}) ==
          Words{"hyperparameter processes_per_host: none is not a number from 1 to 4096"});
    alone.gpus = 2;
    CHECK(command(alone, {}) == two);

    plan::NodePlan plan;
    plan.hosts = {"algo-1", "algo-10", "algo-2"};
    plan.host = "algo-2";
    const Words third = {"torchrun", "--nnodes",         "3",    "--master_addr",
                         "algo-1",   "--master_port",    "7777", "--node_rank",
                         "2",        "--nproc_per_node", "1",    "--no-python"};
    CHECK(command(plan, {}) == third);
    CHECK(command(plan, {{"sagemaker_torch_distributed_enabled", "true"}}) == third);
    CHECK(command(plan, {{"sagemaker_torch_distributed_enabled", "true"},
                         {"sagemaker_distribution_instance_groups", "[\"other\"]"}})
              .empty());
    plan.elastic.emplace();
    CHECK(command(plan, {}) == Words{"torchrun", "--nproc_per_node", "1", "--no-python"});
}

TEST_CASE("the processes of a host share its cores, and hosts of one machine share them too") {
    plan::NodePlan plan;
    plan.hosts = {"algo-1", "algo-2"};
    plan.host = "algo-1";
    const auto threads = [&](int cpus, const plan::Pairs& given) {
        const DistributionChoice choice = choose_processes(plan, split_hyperparameters(given));
        const plan::Pairs variables = launcher_variables(choice, plan, cpus);
        return variables.empty() ? "none" : variables.front().second;
    };
    CHECK(threads(16, {{"processes_per_host", "2"}}) == "4");
    CHECK(threads(2, {{"processes_per_host", "4"}}) == "1");
    plan.limits.cpus = 16;  // a share of its own
    CHECK(threads(16, {{"processes_per_host", "2"}}) == "8");
    plan.hosts = {"algo-1"};
    CHECK(threads(16, {}) == "none");
}

TEST_CASE("mpi over several hosts is mpirun on the first and a server on the others") {
    plan::NodePlan plan;
    plan.hosts = {"algo-1", "algo-2", "algo-3"};
    plan.host = "algo-1";
    const Hyperparameters settings = split_hyperparameters(
        {{"sagemaker_mpi_enabled", "true"},
         {"sagemaker_mpi_num_of_processes_per_host", "2"},
         {"sagemaker_mpi_custom_mpi_options", "\"--verbose --NCCL_DEBUG=INFO\""}});
    DistributionChoice choice = choose_distribution(plan, settings);
    REQUIRE_FALSE(choice.refusal.has_value());
    choice.mpi4py = true;
    const std::string agent = "/opt/trainyard/bin/trainyard-agent";
    CHECK(mpi_wrapper(choice) == Words{agent, "mpi-run", "algo-1,algo-2,algo-3", "2", "--"});
    CHECK(mpi_server(choice).empty());
    const Words command = starter_command(choice, plan, "python");
    CHECK(Words(command.begin(), command.begin() + 5) ==
          Words{"mpirun", "--host", "algo-1:2,algo-2:2,algo-3:2", "-np", "6"});
    const std::string line = join(command, " ");
    CHECK(line.find("-mca plm_rsh_agent " + agent + " rsh -mca") != std::string::npos);
    CHECK(line.find("-mca btl_tcp_if_include eth0") != std::string::npos);
    CHECK(line.ends_with(" --verbose -x NCCL_DEBUG=INFO python -m mpi4py"));
    plan.host = "algo-3";
    choice = choose_distribution(plan, settings);
    CHECK(mpi_wrapper(choice).size() == 5);
    CHECK(mpi_server(choice) == Words{agent, "rsh-serve", "algo-3", "7722"});
}

TEST_CASE("the secret of an MPI job is the attempt's") {
    plan::NodePlan plan;
    plan.attempt = AttemptId("job.1");
    plan.credentials.secret_key = "secret";
    const plan::Pairs first = mpi_variables(plan);
    plan.host = "algo-2";
    CHECK(mpi_variables(plan) == first);
    plan.attempt = AttemptId("job.2");
    CHECK(mpi_variables(plan) != first);
}

TEST_CASE("what cannot be started is refused by name and with a remedy") {
    const auto refusal = [](const plan::Pairs& settings) {
        const Words words = started_on("algo-1", settings);
        return words.size() == 2 && words[0] == "refused" ? words[1] : std::string();
    };
    CHECK(refusal({{"sagemaker_parameter_server_enabled", "true"}}) ==
          "distribution \"parameter_server\" is not available in this version; use "
          "torch_distributed or none");
    CHECK(refusal({{"mp_parameters", "{}"}}).find("modelparallel") != std::string::npos);
    CHECK(started_on("algo-1", {{"sagemaker_mpi_enabled", "true"}}, true)[1].find(
              "cannot change") != std::string::npos);
    plan::NodePlan alone;
    alone.hosts = {"algo-1"};
    alone.host = "algo-1";
    alone.gpus = 4;
    const DistributionChoice mpi = choose_distribution(
        alone, split_hyperparameters({{"sagemaker_mpi_enabled", "true"},
                                      {"sagemaker_mpi_custom_mpi_options", "\"-x  NCCL_DEBUG\""}}));
    CHECK(starter_command(mpi, alone, "python") ==
          Words{"mpirun", "-np", "4", "-x", "NCCL_DEBUG", "python"});
    CHECK(is_on_path("sh", "/nonexistent:/bin"));
    CHECK_FALSE(is_on_path("mpirun-that-is-not", "/bin:"));
}

TEST_CASE("progress is taken from well-formed objects only") {
    const auto progress = parse_progress(R"({"step": 7, "total": 20, "message": "loss 0.5"})");
    REQUIRE(progress.has_value());
    CHECK(progress->step == 7);
    CHECK(progress->total == 20);
    CHECK(progress->message == "loss 0.5");
    CHECK(parse_progress("{}").has_value());
    for (const char* bad :
         {"", "[1]", "{\"step\":-1}", "{\"step\":\"7\"}", "{\"step\":1.5}",
          "{\"step\":1,\"message\":[]}", "{\"step\":18446744073709551615}", "{\"step\": 7, \"tot"})
        CHECK_MESSAGE(!parse_progress(bad).has_value(), bad);
    const sys::TempDir dir;
    ProgressFile file(dir.path() / "progress.json");
    CHECK_FALSE(file.look().has_value());
    sys::write_file_atomically(dir.path() / "progress.json", R"({"step":1})");
    CHECK(file.look()->step == 1);
    CHECK_FALSE(file.look().has_value());
    sys::write_file_atomically(dir.path() / "progress.json", R"({"step":1})");
    CHECK_FALSE(file.look().has_value());
    sys::write_file_atomically(dir.path() / "progress.json", R"({"step":2})");
    CHECK(file.look()->step == 2);
    fs::remove(dir.path() / "progress.json");
    fs::create_symlink("/etc/passwd", dir.path() / "progress.json");
    CHECK_FALSE(file.look().has_value());
}
