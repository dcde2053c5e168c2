// SPDX-License-Identifier: Apache-2.0
// Several agents as nodes of one attempt, and what survives a machine: joined results, the network,
// checkpoints, elastic launchers. Part of agent_process_test, whose main() is in process_test.cc.
#include "agent/testing/job_run.h"
#include "base/text.h"

#include <string>
#include <vector>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;
namespace fs = sys::fs;

namespace {

using Kind = plan::Outcome::Kind;

}  // namespace

TEST_CASE("several nodes make one archive of what each of them left") {
    JobRun job;
    const std::vector<std::string> nodes = {"algo-1", "algo-2", "algo-3"};
    job.daemon.plan.hosts = nodes;
    job.shell(
        "cd \"${SAGEMAKER_BASE_DIR:-/opt/ml}\"; h=$(hostname); [ $h = algo-2 ] || echo $h > "
        "model/from-$h; echo o > output/data/log-$h; echo ready; cat "
        "input/config/resourceconfig.json");
    for (const std::string& node : nodes) job.start(node);
    for (const std::string& node : nodes) {
        const auto collected = job.daemon.wait_for<plan::Collected>(node);
        REQUIRE(collected.has_value());
        CHECK(collected->output);
        CHECK(collected->model == (node != "algo-2"));
        CHECK_FALSE(job.daemon.finished(node).has_value());
        CHECK(job.daemon.has_line("\"hosts\":[\"algo-1\",\"algo-2\",\"algo-3\"]", node));
    }
    CHECK_FALSE(job.daemon.object("out/jobs/Test-Job/output/model.tar.gz").has_value());
    job.daemon.command(plan::Finish{nodes}, "algo-1");
    job.daemon.command(plan::Finish{}, "algo-2");
    job.daemon.command(plan::Finish{}, "algo-3");
    CHECK(job.wait("algo-1").model_uploaded);
    CHECK(job.wait("algo-2").outcome.kind == Kind::completed);
    CHECK_FALSE(job.wait("algo-3").model_uploaded);
    const std::string model = "out/jobs/Test-Job/output/model.tar.gz";
    CHECK(job.member(model, "from-algo-1") == "algo-1\n");
    CHECK(job.member(model, "from-algo-2") == "(missing)");
    CHECK(job.member(model, "from-algo-3") == "algo-3\n");
    for (const std::string& node : nodes)
        CHECK(job.member("out/jobs/Test-Job/output/output.tar.gz", "log-" + node) == "o\n");
    CHECK(job.daemon.object_names().size() == 2);
}

TEST_CASE("hosts of a job find one another by name, and the daemon where it always is") {
    if (!has_namespaces() || !fs::exists("/usr/bin/python3")) return;
    JobRun job;
    job.daemon.plan.hosts = {"algo-1", "algo-2"};
    job.daemon.plan.environment.python = "/usr/bin/python3";
    job.source({{"train.py",
                 "import json, os, socket, time, urllib.request, urllib.error\n"
                 "host = os.environ['SM_CURRENT_HOST']\n"
                 "name = os.environ['SM_NETWORK_INTERFACE_NAME']\n"
                 "print('interface', name, name in [n for _, n in socket.if_nameindex()])\n"
                 "port = int(os.environ['MASTER_PORT'])\n"
                 "if os.environ['MASTER_ADDR'] == host:\n"
                 "    with socket.create_server(('algo-1', port)) as s:\n"
                 "        c, peer = s.accept()\n"
                 "        print('from', c.recv(99).decode(), peer[0], flush=True)\n"
                 "        c.close()\n"
                 "else:\n"
                 "    for _ in range(400):\n"
                 "        try:\n"
                 "            c = socket.create_connection(('algo-1', port))\n"
                 "            break\n"
                 "        except OSError: time.sleep(0.05)\n"
                 "    c.send(host.encode())\n"
                 "    c.recv(1)\n"
                 "try: urllib.request.urlopen(os.environ['AWS_ENDPOINT_URL'] + '/b/none')\n"
                 "except urllib.error.HTTPError as e: print('daemon says', e.code)\n"}},
               "train.py");
    if (!job.connect(2)) return;
    job.start("algo-1");
    job.start("algo-2");
    for (const char* node : {"algo-1", "algo-2"}) {
        REQUIRE(job.daemon.wait_for<plan::Collected>(node).has_value());
        job.daemon.command(plan::Finish{}, node);
    }
    CHECK(job.wait("algo-1").outcome.kind == Kind::completed);
    CHECK(job.wait("algo-2").outcome.kind == Kind::completed);
    CHECK(job.daemon.has_line("from algo-2 10.84.0.3"));
    for (const char* node : {"algo-1", "algo-2"}) {
        CHECK(job.daemon.has_line("interface eth0 True", node));
        CHECK(job.daemon.has_line("daemon says 404", node));
    }
}

TEST_CASE("a program of its own trains on all hosts, started by our launchers, which meet") {
    if (!has_namespaces()) return;
    JobRun job;
    job.daemon.plan.hosts = {"algo-1", "algo-2"};
    sys::write_file(job.dir().path() / "train",
                    "#!/bin/sh\nprintf '%s\\n' \"rank $RANK of $WORLD_SIZE on $(hostname), meet at "
                    "$MASTER_ADDR:$MASTER_PORT\"\n",
                    0755);
    plan::Environment& environment = job.daemon.plan.environment;
    environment.toolkit = false;
    environment.launcher = true;
    environment.entrypoint = {(job.dir().path() / "train").string()};
    environment.readable = {job.dir().path().string()};
    job.daemon.plan.hyperparameters = {{"processes_per_host", "2"}};
    if (!job.connect(2)) return;
    job.start("algo-1");
    job.start("algo-2");
    for (const char* node : {"algo-1", "algo-2"}) {
        REQUIRE(job.daemon.wait_for<plan::Collected>(node).has_value());
        job.daemon.command(plan::Finish{}, node);
    }
    CHECK(job.wait("algo-1").outcome.kind == Kind::completed);
    CHECK(job.wait("algo-2").outcome.kind == Kind::completed);
    for (const char* line : {"rank 0 of 4 on algo-1", "rank 1 of 4 on algo-1"})
        CHECK(job.daemon.has_line(line));
    for (const char* line : {"rank 2 of 4 on algo-2", "rank 3 of 4 on algo-2"})
        CHECK(job.daemon.has_line(line, "algo-2"));
    for (const std::string& line : job.daemon.lines()) {
        // All processes are told the same place.
        const std::size_t at = line.find(", meet at ");
        if (at != line.npos) CHECK(job.daemon.has_line(line.substr(at), "algo-2"));
    }
}

TEST_CASE("checkpoints are restored before the program and complete after it") {
    if (!has_namespaces()) return;
    JobRun job;
    plan::Checkpoint checkpoint;
    checkpoint.uri = "s3://ckpt/job";
    checkpoint.local_path = "/srv/state/ckpt";
    job.daemon.plan.checkpoint = checkpoint;
    SUBCASE("a program that ends") {
        job.shell("echo one > $TRAINYARD_CHECKPOINT_DIR/step-1.txt; ls -d /srv/state/ckpt");
        CHECK(job.run().outcome.kind == Kind::completed);
    }
    SUBCASE("a program that is interrupted") {
        job.shell(
            "trap 'echo one > /srv/state/ckpt/step-1.txt; exit 0' TERM; echo ready; while :; do "
            "sleep 0.05; done");
        job.start();
        REQUIRE(job.daemon.wait_for_line("ready"));
        job.daemon.command(plan::Interrupt{10s, "test"});
        CHECK(job.wait().outcome.kind == Kind::interrupted);
    }
    const auto committed = job.daemon.wait_for<plan::CheckpointCommitted>();
    REQUIRE(committed.has_value());
    CHECK(committed->files == 1);
    CHECK(job.daemon.object("ckpt/job/step-1.txt") == "one\n");
    JobRun second;
    for (const std::string& name : job.daemon.object_names())
        second.daemon.put_object(name, job.daemon.object(name).value());
    second.daemon.plan.checkpoint = checkpoint;
    second.daemon.plan.attempt_number = 2;
    second.shell("cat /srv/state/ckpt/step-1.txt");
    CHECK(second.run().outcome.kind == Kind::completed);
    CHECK(second.daemon.has_line("one"));
    CHECK(second.daemon.has_line("restored checkpoint " + committed->id));
    CHECK(second.daemon.wait_for<plan::CheckpointRestored>()->id == committed->id);
}

TEST_CASE("checkpoints cannot be kept in the system's folders") {
    JobRun job;
    job.daemon.plan.checkpoint = plan::Checkpoint{.uri = "s3://ckpt/job"};
    job.daemon.plan.checkpoint->local_path = "/usr/../etc/x";
    job.shell("echo must not run");
    const plan::Finished end = job.run();
    CHECK(end.outcome.kind == Kind::failed);
    CHECK(end.outcome.reason.find("LocalPath \"/usr/../etc/x\"") != std::string::npos);
}

TEST_CASE("what the program says about itself arrives") {
    JobRun job;
    job.shell(
        "f=$TRAINYARD_PROGRESS_FILE; echo '{\"step\": 3, \"total\": 9, \"message\": \"half\"}' > "
        "$f.new; mv $f.new $f");
    CHECK(job.run().outcome.kind == Kind::completed);
    const auto progress = job.daemon.wait_for<plan::Progress>();
    REQUIRE(progress.has_value());
    CHECK(progress->step == 3);
    CHECK(progress->message == "half");
}

TEST_CASE("an elastic job goes on without a node that is interrupted") {
    if (!has_namespaces() || !fs::exists("/usr/bin/python3")) return;
    JobRun job;
    job.daemon.plan.hosts = {"algo-1", "algo-2"};
    job.daemon.plan.environment.python = "/usr/bin/python3";
    job.daemon.plan.variables = {{"ASAN_OPTIONS", "detect_leaks=0"}};
    job.daemon.plan.elastic = plan::Elastic{1, 2, 3, "rendezvous-secret"};
    job.daemon.plan.checkpoint = plan::Checkpoint{.uri = "s3://ckpt/elastic"};
    job.daemon.plan.hyperparameters = {{"trainyard_elastic", "\"1:2\""}};
    job.source({{"train.py",
                 "import os, sys, time\n"
                 "world = int(os.environ['WORLD_SIZE'])\n"
                 "folder = os.environ['TRAINYARD_CHECKPOINT_DIR']\n"
                 "print('world', world, 'rank', os.environ['RANK'], sys.argv[1:], "
                 "sorted(f for f in os.listdir(folder) if f[0] != '.'), flush=True)\n"
                 "if world == 2:\n"
                 "    if os.environ['RANK'] == '0':\n"
                 "        open(folder + '/step-7.txt', 'w').write('seven')\n"
                 "    time.sleep(600)\n"
                 "print('done', flush=True)\n"}},
               "train.py");
    if (!job.connect(2, {{"run_id", "j-test.1"},
                         {"min_nodes", 1},
                         {"max_nodes", 2},
                         {"expected_nodes", 2},
                         {"max_restarts", 3},
                         {"checkpoints", true},
                         {"token", "rendezvous-secret"}}))
        return;
    job.start("algo-1");
    job.start("algo-2");
    REQUIRE(job.daemon.wait_for_line("world 2", "algo-1"));
    REQUIRE(job.daemon.wait_for_line("world 2", "algo-2"));
    job.daemon.command(plan::Interrupt{20s, "scaled down"}, "algo-2");
    REQUIRE(job.daemon.wait_for_line("done", "algo-1"));
    REQUIRE(job.daemon.wait_for<plan::Collected>("algo-1").has_value());
    job.daemon.command(plan::Finish{{"algo-1"}}, "algo-1");
    CHECK(job.wait("algo-1").outcome.kind == Kind::completed);
    CHECK(job.wait("algo-2").outcome.kind == Kind::interrupted);
    CHECK(job.daemon.has_line("world 1 rank 0 [] ['step-7.txt']", "algo-1"));
    CHECK(job.daemon.object("ckpt/elastic/step-7.txt") == "seven");
    std::vector<std::string> changes;
    for (const plan::Event& event : job.daemon.events("algo-1")) {
        if (const auto* changed = std::get_if<plan::GenerationChanged>(&event.payload))
            changes.push_back(changed->running ? format("{} nodes", changed->nodes)
                                               : changed->cause);
    }
    CHECK(changes == std::vector<std::string>{"2 nodes", "preemption", "1 nodes", "succeeded"});
}

TEST_CASE("a node that failed waits for nobody, one that waits can be interrupted") {
    JobRun job;
    job.daemon.plan.hosts = {"algo-1", "algo-2"};
    job.shell("[ $(hostname) = algo-1 ] || exit 3");
    if (!has_namespaces()) return;
    job.start("algo-1");
    job.start("algo-2");
    REQUIRE(job.daemon.wait_for<plan::Collected>("algo-1").has_value());
    const auto failed = job.daemon.wait_for<plan::Finished>("algo-2");
    REQUIRE(failed.has_value());
    CHECK(failed->outcome.exit_code == 3);
    job.daemon.command(plan::Interrupt{10s, "the attempt ends"}, "algo-1");
    CHECK(job.wait("algo-1").outcome.kind == Kind::interrupted);
}
