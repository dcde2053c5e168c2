// SPDX-License-Identifier: Apache-2.0
#include "agent/contract/arguments.h"
#include "agent/contract/cluster.h"
#include "agent/contract/input_config.h"
#include "agent/contract/python_value.h"
#include "agent/contract/results.h"
#include "agent/contract/variables.h"
#include "base/error.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <csignal>
#include <map>

#include <sys/stat.h>

using namespace ty;
using namespace ty::agent;

namespace {

std::string shown(std::string_view json) {
    return PythonValue::decode(json).str();
}

plan::NodePlan sample_plan() {
    plan::NodePlan plan;
    plan.job_name = "My-Job";
    plan.job_arn = "arn:aws:sagemaker:us-west-2:000000000000:training-job/my-job";
    plan.region = "us-west-2";
    plan.endpoint = "http://127.0.0.1:4545";
    plan.credentials = {"AKID", "secret", "session"};
    plan.hosts = {"algo-1"};
    plan.host = "algo-1";
    plan.instance_type = "ml.m5.xlarge";
    plan.hyperparameters = {{"epochs", "3"},
                            {"batch-size", "64"},
                            {"name", "\"resnet\""},
                            {"sagemaker_program", "\"train.py\""},
                            {"sagemaker_container_log_level", "20"},
                            {"sagemaker_torch_distributed_enabled", "true"}};
    plan.channels = {
        {.name = "train", .uri = "s3://b/p", .content_type = "text/csv"},
        {.name = "valid", .uri = "s3://b/v", .input_mode = plan::InputMode::fast_file}};
    plan.variables = {{"MY_OWN", "1"}, {"AWS_REGION", "overridden"}, {"PATH", "/mine"}};
    return plan;
}

std::map<std::string, std::string> as_map(const plan::Pairs& pairs) {
    return {pairs.begin(), pairs.end()};
}

Tail tail_of(const std::vector<std::string>& lines) {
    Tail tail;
    for (const std::string& line : lines) tail.add(line);
    return tail;
}

}  // namespace

TEST_CASE("values are spelled as Python's str() spells them") {
    CHECK(shown("true") == "True");
    CHECK(shown("null") == "None");
    CHECK(shown("0.10") == "0.1");
    CHECK(shown("1e-05") == "1e-05");
    CHECK(shown("0.0001") == "0.0001");
    CHECK(shown("1e16") == "1e+16");
    CHECK(shown("1234567890123456.0") == "1234567890123456.0");
    CHECK(shown("5.0") == "5.0");
    CHECK(shown("-0.5") == "-0.5");
    CHECK(shown("1e400") == "inf");
    CHECK(shown("NaN") == "nan");
    CHECK(shown("123456789012345678901234567890") == "123456789012345678901234567890");
    CHECK(shown("[1, \"a'b\", {\"k\": null}]") == "[1, \"a'b\", {'k': None}]");
    CHECK(shown("\"\\u4f60\\ud83d\\ude00\"") == "你😀");
}

TEST_CASE("what json.loads refuses stays the raw text") {
    CHECK(shown("True") == "True");
    CHECK(shown("s3://bucket/x") == "s3://bucket/x");
    CHECK(shown("01") == "01");
    CHECK(shown("1 2") == "1 2");
    CHECK(shown("{'a': 1}") == "{'a': 1}");
    CHECK(shown("\"open") == "\"open");
    CHECK(shown("") == "");
    CHECK(shown(std::string(5000, '[')).size() == 5000);
}

TEST_CASE("json is compact, sorted and ASCII") {
    CHECK(PythonValue::decode(R"({"b": [1, 2.50], "a": "é😀\n"})").json() ==
          R"({"a":"\u00e9\ud83d\ude00\n","b":[1,2.5]})");
}

TEST_CASE("arguments are sorted, one value each, the toolkit's own settings left out") {
    const Hyperparameters split = split_hyperparameters({{"lr", "0.1"},
                                                         {"n", "3"},
                                                         {"flag", "true"},
                                                         {"none", "null"},
                                                         {"layers", "[1, 2]"},
                                                         {"map", R"({"y": 2, "x": "a"})"},
                                                         {"Text", "\"a b\""},
                                                         {"sagemaker_program", "\"t.py\""},
                                                         {"_tuning_objective_metric", "loss"}});
    const std::vector<std::string> expected = {"--Text", "a b",  "--flag", "True",  "--layers",
                                               "[1, 2]", "--lr", "0.1",    "--map", "x=a,y=2",
                                               "-n",     "3",    "--none", ""};
    CHECK(to_arguments(split.user) == expected);
    CHECK(split.framework_text("sagemaker_program") == "t.py");
    CHECK(split.framework.size() == 2);
}

TEST_CASE("shell words survive any bytes") {
    CHECK(shell_quote("plain-1.0") == "plain-1.0");
    CHECK(shell_quote("") == "''");
    CHECK(shell_quote("a b$(x)'y'") == "'a b$(x)'\"'\"'y'\"'\"''");
}

TEST_CASE("configuration files have the golden form") {
    const plan::NodePlan plan = sample_plan();
    CHECK(hyperparameters_json(plan).starts_with(
        R"({"epochs":"3","batch-size":"64","name":"\"resnet\"",)"));
    CHECK(
        input_data_config_json(plan) ==
        R"({"train":{"TrainingInputMode":"File","S3DistributionType":"FullyReplicated","RecordWrapperType":"None","ContentType":"text/csv"},)"
        R"("valid":{"TrainingInputMode":"File","S3DistributionType":"FullyReplicated","RecordWrapperType":"None"}})");
    CHECK(
        resource_config_json(plan, "eth0") ==
        R"({"current_host":"algo-1","current_instance_type":"ml.m5.xlarge","current_group_name":"homogeneousCluster","hosts":["algo-1"],)"
        R"("instance_groups":[{"instance_group_name":"homogeneousCluster","instance_type":"ml.m5.xlarge","hosts":["algo-1"]}],"network_interface_name":"eth0"})");
    CHECK(input_data_config_json({}) == "{}");
    CHECK(hyperparameters_json({}) == "{}");
}

TEST_CASE("the tree has what a container finds and no intermediate folder") {
    const sys::TempDir dir;
    HostPaths paths;
    paths.folder = dir.path();
    write_ml_tree(paths, sample_plan(), "lo");
    for (const char* name : {"model", "output/data", "input/config", "input/data/train",
                             "input/data/valid", "code", "checkpoints"}) {
        CHECK_MESSAGE(sys::fs::is_directory(paths.ml() / name), name);
    }
    CHECK(sys::fs::exists(paths.config() / "resourceconfig.json"));
    CHECK_FALSE(sys::fs::exists(paths.ml() / "output/intermediate"));
    CHECK(sys::fs::is_empty(paths.code()));
}

TEST_CASE("service variables win over the request, the environment's folders come first in PATH") {
    NodeFacts facts;
    const Variables variables = container_variables(sample_plan(), facts, {"/env/bin"});
    CHECK(*variables.find("AWS_REGION") == "us-west-2");
    CHECK(*variables.find("MY_OWN") == "1");
    CHECK(*variables.find("PATH") == "/env/bin:/mine");
    CHECK(*variables.find("PYTHONUNBUFFERED") == "1");
    CHECK(*variables.find("AWS_SESSION_TOKEN") == "session");
    CHECK(*variables.find("S3_ENDPOINT_URL") == "http://127.0.0.1:4545");
    CHECK(variables.find("SAGEMAKER_BASE_DIR") == nullptr);
    CHECK(variables.find("LD_PRELOAD") == nullptr);
    facts.paths.base = "/state/ml";
    CHECK(*container_variables(sample_plan(), facts, {}).find("SAGEMAKER_BASE_DIR") == "/state/ml");
}

TEST_CASE("names that execve cannot carry are left out") {
    Variables variables;
    variables.set("A=B", "x");
    variables.set("", "x");
    variables.set("GOOD", "y");
    variables.set("NUL", std::string("a\0b", 3));
    CHECK(variables.to_environ() == std::vector<std::string>{"GOOD=y"});
}

TEST_CASE("toolkit variables have the golden form") {
    const plan::NodePlan plan = sample_plan();
    NodeFacts facts;
    facts.network_interface = "eth0";
    facts.cpus = 4;
    const Hyperparameters split = split_hyperparameters(plan.hyperparameters);
    const ScriptFacts script = {"train.py", "s3://b/source.tar.gz", to_arguments(split.user)};
    const auto all = as_map(toolkit_variables(plan, facts, split, script));
    CHECK(all.at("SM_HPS") == R"({"batch-size":64,"epochs":3,"name":"resnet"})");
    CHECK(all.at("SM_HP_BATCH-SIZE") == "64");
    CHECK(all.at("SM_HP_NAME") == "resnet");
    CHECK(all.at("SM_FRAMEWORK_PARAMS") == R"({"sagemaker_torch_distributed_enabled":true})");
    CHECK(all.at("SM_CHANNELS") == R"(["train","valid"])");
    CHECK(all.at("SM_CHANNEL_TRAIN") == "/opt/ml/input/data/train");
    CHECK(all.at("SM_USER_ARGS") == R"(["--batch-size","64","--epochs","3","--name","resnet"])");
    CHECK(all.at("SM_HOSTS") == R"(["algo-1"])");
    CHECK(all.at("SM_NUM_CPUS") == "4");
    CHECK(all.at("SM_NUM_GPUS") == "0");
    CHECK(all.at("SM_MODEL_DIR") == "/opt/ml/model");
    CHECK(all.at("SM_MODULE_DIR") == "s3://b/source.tar.gz");
    CHECK(all.at("SM_MODULE_NAME") == "train");
    CHECK(all.at("SM_USER_ENTRY_POINT") == "train.py");
    CHECK(all.at("SM_IS_HETERO") == "false");
    CHECK(all.at("MASTER_ADDR") == "algo-1");
    CHECK(all.at("MASTER_PORT") == "7777");
    CHECK(all.at("SM_RESOURCE_CONFIG").find(R"("network_interface_name":"eth0")") !=
          std::string::npos);
    CHECK(all.at("SM_INPUT_DATA_CONFIG")
              .starts_with(R"({"train":{"ContentType":"text/csv","RecordWrapperType":"None")"));
    const auto env = PythonValue::parse(all.at("SM_TRAINING_ENV"));
    REQUIRE(env.has_value());
    CHECK(env->kind() == PythonValue::Kind::dict);
    for (const char* name :
         {"SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_TYPE", "SM_CURRENT_INSTANCE_GROUP",
          "SM_CURRENT_INSTANCE_GROUP_HOSTS", "SM_INSTANCE_GROUPS", "SM_INSTANCE_GROUPS_DICT",
          "SM_DISTRIBUTION_INSTANCE_GROUPS", "SM_NETWORK_INTERFACE_NAME", "SM_NUM_NEURONS",
          "SM_INPUT_DIR", "SM_INPUT_CONFIG_DIR", "SM_OUTPUT_DIR", "SM_OUTPUT_DATA_DIR",
          "SM_OUTPUT_INTERMEDIATE_DIR", "SM_LOG_LEVEL", "SM_FRAMEWORK_MODULE",
          "NCCL_SOCKET_IFNAME"}) {
        CHECK_MESSAGE(all.contains(name), name);
    }
}

TEST_CASE("a traceback's exception line is what a failure shows") {
    const Tail tail = tail_of(
        {"epoch 1", "Traceback (most recent call last):", "  File \"t.py\", line 3, in <module>",
         "    f()", "torch.cuda.OutOfMemoryError: CUDA out of memory.", "Tried to allocate 2 GiB"});
    CHECK(meaningful_lines(tail.lines()) ==
          "torch.cuda.OutOfMemoryError: CUDA out of memory.\nTried to allocate 2 GiB");
    ProgramEnd end;
    end.exit.code = 3;
    CHECK(failure_reason(end, std::nullopt,
                         tail_of({"Traceback (most recent call last):", "ValueError: bad"})) ==
          "AlgorithmError: ValueError: bad, exit code: 3");
}

TEST_CASE("the failure file comes first and is cut at 1024 characters with its exit code") {
    ProgramEnd end;
    end.exit.code = 2;
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "é";
    const std::string reason = failure_reason(end, text, tail_of({"other"}));
    CHECK(reason.starts_with("AlgorithmError: ééé"));
    CHECK(reason.ends_with("é, exit code: 2"));
    CHECK(count_code_points(reason) == 1024);
}

TEST_CASE("signals and memory are named") {
    ProgramEnd end;
    end.exit.signal = SIGSEGV;
    CHECK(failure_reason(end, std::nullopt, {}) ==
          "AlgorithmError: killed by SIGSEGV (signal 11), exit code: 139");
    end.exit.signal = SIGKILL;
    end.out_of_memory = true;
    end.memory_limit = Bytes(1u << 30);
    const std::string reason = failure_reason(end, std::nullopt, tail_of({"step 7"}));
    CHECK(reason ==
          "AlgorithmError: out of memory: the program was killed by the kernel (memory limit 1.0 "
          "GiB); last output: step 7, exit code: 137");
}

TEST_CASE("script mode speaks the toolkit's words and exits with 1") {
    ProgramEnd end;
    end.exit.code = 3;
    end.script_mode = true;
    end.command = "/usr/bin/python3 train.py --lr 0.1";
    CHECK(failure_reason(end, std::nullopt,
                         tail_of({"Traceback (most recent call last):", "ValueError: bad"})) ==
          "AlgorithmError: ExecuteUserScriptError:\nExitCode 3\nErrorMessage \"ValueError: "
          "bad\"\nCommand \"/usr/bin/python3 train.py --lr 0.1\", exit code: 1");
    CHECK(failure_reason(end, "I know why", {}) == "AlgorithmError: I know why, exit code: 1");
}

TEST_CASE("the failure file is read without trusting it") {
    const sys::TempDir dir;
    const std::string path = (dir.path() / "failure").string();
    CHECK_FALSE(read_failure_file(path).has_value());
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_FALSE(read_failure_file(path).has_value());
    sys::fs::remove(path);
    sys::fs::create_symlink("/etc/passwd", path);
    CHECK_FALSE(read_failure_file(path).has_value());
    sys::fs::remove(path);
    sys::write_file(path, "  \n");
    CHECK_FALSE(read_failure_file(path).has_value());
    sys::write_file(path, " bad \xff data\n");
    CHECK(read_failure_file(path) == "bad \xEF\xBF\xBD data");
}

TEST_CASE("several hosts in groups are described as the toolkit does") {
    plan::NodePlan plan = sample_plan();
    plan.hosts = {"algo-1", "algo-10", "algo-2"};
    plan.host = "algo-2";
    plan.instance_group = "workers";
    plan.instance_type = "ml.c5.xlarge";
    plan.groups = {{"data", "ml.m5.xlarge", {"algo-1", "algo-10"}},
                   {"workers", "ml.c5.xlarge", {"algo-2"}}};
    CHECK(
        resource_config_json(plan, "eth0") ==
        R"({"current_host":"algo-2","current_instance_type":"ml.c5.xlarge","current_group_name":"workers","hosts":["algo-1","algo-10","algo-2"],)"
        R"("instance_groups":[{"instance_group_name":"data","instance_type":"ml.m5.xlarge","hosts":["algo-1","algo-10"]},)"
        R"({"instance_group_name":"workers","instance_type":"ml.c5.xlarge","hosts":["algo-2"]}],"network_interface_name":"eth0"})");
    const auto variables = [&] {
        const Hyperparameters split = split_hyperparameters(plan.hyperparameters);
        return as_map(toolkit_variables(plan, {}, split, {"train.py", "", {}}));
    };
    auto all = variables();
    CHECK(all.at("SM_HOSTS") == R"(["algo-1","algo-10","algo-2"])");
    CHECK(all.at("SM_CURRENT_INSTANCE_GROUP_HOSTS") == R"(["algo-2"])");
    CHECK(all.at("SM_INSTANCE_GROUPS") == R"(["data","workers"])");
    CHECK(all.at("SM_IS_HETERO") == "true");
    CHECK(
        all.at("SM_INSTANCE_GROUPS_DICT")
            .starts_with(R"({"data":{"hosts":["algo-1","algo-10"],"instance_group_name":"data")"));
    // A distribution that is switched on runs in our group, unless it says where.
    CHECK(all.at("SM_DISTRIBUTION_INSTANCE_GROUPS") == R"(["workers"])");
    CHECK(all.at("MASTER_ADDR") == "algo-2");
    plan.hyperparameters.emplace_back("sagemaker_distribution_instance_groups",
                                      R"(["data","workers"])");
    all = variables();
    CHECK(all.at("SM_DISTRIBUTION_INSTANCE_GROUPS") == R"(["data","workers"])");
    CHECK(all.at("MASTER_ADDR") == "algo-1");
    CHECK(participants_of(plan, split_hyperparameters(plan.hyperparameters)).rank == 2);
}

TEST_CASE("the range of an elastic job is no argument of the script") {
    plan::NodePlan plan = sample_plan();
    plan.hyperparameters.emplace_back("trainyard_elastic", "\"1:4\"");
    const Hyperparameters split = split_hyperparameters(plan.hyperparameters);
    for (const std::string& argument : to_arguments(split.user))
        CHECK(argument.find("elastic") == std::string::npos);
    const auto all = as_map(toolkit_variables(plan, {}, split, {"train.py", "", {}}));
    CHECK(all.at("SM_FRAMEWORK_PARAMS").find("elastic") == std::string::npos);
    CHECK(all.at("SM_HPS").find("elastic") == std::string::npos);
}

TEST_CASE("a node's GPUs are what its program sees") {
    NodeFacts facts;
    CHECK(container_variables(sample_plan(), facts, {}).find("CUDA_VISIBLE_DEVICES") == nullptr);
    facts.gpus = {2, 5};
    CHECK(*container_variables(sample_plan(), facts, {}).find("CUDA_VISIBLE_DEVICES") == "2,5");
    CHECK(*container_variables(sample_plan(), facts, {}).find("NVIDIA_VISIBLE_DEVICES") == "2,5");
}
