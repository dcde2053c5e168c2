# SPDX-License-Identifier: Apache-2.0
"""Jobs of several instances: names, addresses, files, processes that meet, reasons, results."""
import json

import pytest

import nodes
import yard

TORCH = """
import json, os, socket
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
# One write: print() makes two of an unbuffered line, and processes of a host share its stdout.
os.write(1, b"rank %d of %d on %s sums %d\\n" % (
    dist.get_rank(), dist.get_world_size(), socket.gethostname().encode(), int(total)))
if dist.get_rank() == 0:
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "sum.json"), "w") as file:
        json.dump({"sum": int(total), "world": dist.get_world_size()}, file)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def pair(boxed):
    """One finished job of two shell instances: its name."""
    script = """
        set -e
        echo "I am $(hostname)"
        for host in algo-1 algo-2; do getent hosts $host | awk -v h=$host '{print h " is " $1}'; done
        cp /opt/ml/input/config/resourceconfig.json /opt/ml/model/$(hostname).json
        ls /sys/class/net | tr '\\n' ' '; echo
        env | sort > /opt/ml/output/data/$(hostname).env
        echo shared > /opt/ml/model/shared
    """
    return yard.run_shell("pair", script, ResourceConfig=nodes.cluster(2))


def test_every_host_has_a_stream_and_its_name(pair):
    streams = yard.streams(pair)
    assert len(streams) == 2 and [s.split("/")[1].rsplit("-", 1)[0] for s in streams] == ["algo-1", "algo-2"]
    for stream, host in zip(streams, ("algo-1", "algo-2")):
        assert f"I am {host}" in [event["message"] for event in yard.stream_events(stream)]


def test_hosts_know_each_other_by_name_at_addresses_of_their_own(pair):
    seen = {line for line in yard.all_lines(pair) if " is " in line and line.startswith("algo-")}
    assert len(seen) == 2, seen  # both hosts say the same of each
    addresses = {line.split(" is ")[1] for line in seen}
    assert len(addresses) == 2 and not any(address.startswith("127.") for address in addresses)


def test_resourceconfig_on_both_hosts_and_one_archive_of_all(pair):
    model = yard.archive(pair)
    assert set(model) == {"algo-1.json", "algo-2.json", "shared"}
    for host in ("algo-1", "algo-2"):
        config = json.loads(model[host + ".json"][1])
        interface = config.pop("network_interface_name")
        assert config == {
            "current_host": host, "current_instance_type": "ml.m5.xlarge", "current_group_name": "homogeneousCluster",
            "hosts": ["algo-1", "algo-2"], "instance_groups": [
                {"instance_group_name": "homogeneousCluster", "instance_type": "ml.m5.xlarge",
                 "hosts": ["algo-1", "algo-2"]}]}
        assert any(interface in line.split() for line in yard.all_lines(pair)), interface
    assert set(yard.archive(pair, "output")) == {"algo-1.env", "algo-2.env"}
    assert not [key for key in yard.keys(f"out/{pair}/") if ".parts" in key]


def test_the_description_of_several_instances(pair):
    job = yard.describe(pair)
    assert job["ResourceConfig"]["InstanceCount"] == 2
    assert nodes.statuses(job) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    nodes.check_times(job)


def test_results_without_compression_come_from_every_host(boxed):
    name = yard.run_shell("loose", "echo $(hostname) > /opt/ml/model/$(hostname)", ResourceConfig=nodes.cluster(2),
                          OutputDataConfig={"S3OutputPath": yard.OUTPUT, "CompressionType": "NONE"})
    assert yard.keys(f"out/{name}/") == [f"out/{name}/output/model/algo-1", f"out/{name}/output/model/algo-2"]


def test_sharded_input_is_divided(boxed):
    for number in range(6):
        yard.put(f"shards/{number}.txt")
    channel = yard.channel("train", f"s3://{yard.BUCKET}/shards/")
    channel["DataSource"]["S3DataSource"]["S3DataDistributionType"] = "ShardedByS3Key"
    name = yard.run_shell("shards", "ls /opt/ml/input/data/train > /opt/ml/model/$(hostname)",
                          ResourceConfig=nodes.cluster(2), InputDataConfig=[channel])
    parts = [member[1].decode().split() for member in yard.archive(name).values()]
    assert sorted(parts[0] + parts[1]) == [f"{n}.txt" for n in range(6)] and [len(part) for part in parts] == [3, 3]


def test_instance_groups(boxed):
    groups = [{"InstanceGroupName": "first", "InstanceType": "ml.m5.xlarge", "InstanceCount": 1},
              {"InstanceGroupName": "second", "InstanceType": "ml.m5.large", "InstanceCount": 2}]
    script = "cp /opt/ml/input/config/resourceconfig.json /opt/ml/model/$(hostname).json"
    name = yard.run_shell("groups", script, ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 10})
    assert yard.describe(name)["ResourceConfig"]["InstanceGroups"] == groups
    model = yard.archive(name)
    kinds = {"algo-1": ("first", "ml.m5.xlarge"), "algo-2": ("second", "ml.m5.large"),
             "algo-3": ("second", "ml.m5.large")}
    for host, (group, kind) in kinds.items():
        config = json.loads(model[host + ".json"][1])
        assert (config["current_host"], config["current_group_name"], config["current_instance_type"]) == (
            host, group, kind)
        assert config["instance_groups"] == [
            {"instance_group_name": "first", "instance_type": "ml.m5.xlarge", "hosts": ["algo-1"]},
            {"instance_group_name": "second", "instance_type": "ml.m5.large", "hosts": ["algo-2", "algo-3"]}]


def test_the_first_failing_host_names_the_reason_and_the_others_are_stopped(boxed):
    script = """
        if [ $(hostname) = algo-2 ]; then echo "disk of algo-2 is full" > /opt/ml/output/failure; exit 7; fi
        trap 'echo stopped politely; exit 0' TERM
        echo waiting; sleep 60 & wait
    """
    name = yard.start("firstfail", script, ResourceConfig=nodes.cluster(2))
    job = yard.wait(name, 30)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"] == "AlgorithmError: disk of algo-2 is full, exit code: 7"
    assert "stopped politely" in yard.all_lines(name)


def test_a_job_of_several_instances_can_be_stopped(boxed):
    name = yard.start("stopall", "trap 'echo bye; exit 0' TERM; echo up; sleep 60 & wait",
                      ResourceConfig=nodes.cluster(3))
    nodes.wait_for_text(name, "up", 3)
    job = nodes.stop(name)
    assert job["TrainingJobStatus"] == "Stopped"
    assert yard.all_lines(name).count("bye") == 3


def test_programs_meet_over_the_network(boxed):
    script = """
        python3 - <<'END'
import os, socket, time
me = socket.gethostname()
if me == "algo-1":
    server = socket.create_server(("algo-1", 7777))
    peer, address = server.accept()
    print("heard", peer.recv(100).decode())
else:
    for attempt in range(200):
        try:
            socket.create_connection(("algo-1", 7777), 5).sendall(b"hello from " + me.encode())
            break
        except OSError:
            time.sleep(0.05)
END
    """
    name = yard.run_shell("meet", script, ResourceConfig=nodes.cluster(2))
    assert "heard hello from algo-2" in yard.all_lines(name)


def test_aws_calls_from_every_host_come_here(boxed):
    script = """
        python3 -c 'import os, urllib.request as u; print("healthy",
            u.urlopen(os.environ["AWS_ENDPOINT_URL"] + "/healthz", timeout=10).status, os.uname().nodename)'
    """
    name = yard.run_shell("callhome", script, ResourceConfig=nodes.cluster(2))
    found = {line for line in yard.all_lines(name) if line.startswith("healthy 200")}
    assert found == {"healthy 200 algo-1", "healthy 200 algo-2"}


def framework(script, hyperparameters, count, **more):
    """Start a PyTorch script as SDK v2's estimator does; the job's name."""
    uri = yard.put(f"source/{yard.fresh('src')}/sourcedir.tar.gz", yard.tar_gz({"train.py": script}))
    given = {key: json.dumps(value) for key, value in hyperparameters.items()}
    given |= {"sagemaker_submit_directory": json.dumps(uri), "sagemaker_program": '"train.py"',
              "sagemaker_container_log_level": "20", "sagemaker_region": json.dumps(yard.REGION)}
    return yard.start("torch", "", HyperParameters=given, ResourceConfig=nodes.cluster(count),
                      AlgorithmSpecification={"TrainingImage": yard.PYTORCH, "TrainingInputMode": "File"}, **more)


def test_torch_distributed_on_two_instances(boxed):
    """Two hosts with two processes each, as `distribution={'torch_distributed': …}` asks for."""
    name = framework(TORCH, {"sagemaker_torch_distributed_enabled": True, "sagemaker_instance_type": "ml.m5.xlarge",
                             "sagemaker_nproc_per_node": 2}, 2)
    job = yard.wait(name, 150)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), yard.all_lines(name)[-20:])
    model = json.loads(yard.archive(name)["sum.json"][1])
    world = model["world"]
    assert world >= 2 and model["sum"] == world * (world + 1) // 2
    lines = [line for line in yard.all_lines(name) if " sums " in line]
    assert len(lines) == world and {line.split(" on ")[1].split()[0] for line in lines} == {"algo-1", "algo-2"}


def test_mpi_works_or_is_refused_by_name(boxed):
    name = framework("print('hello')", {"sagemaker_mpi_enabled": True, "sagemaker_mpi_num_of_processes_per_host": 1}, 2)
    job = yard.wait(name, 90)
    if job["TrainingJobStatus"] != "Completed":
        assert job["TrainingJobStatus"] == "Failed" and "mpi" in job["FailureReason"].lower(), job


def test_an_estimator_with_two_instances(boxed, tmp_path, capfd):
    from sagemaker.pytorch import PyTorch
    (tmp_path / "train.py").write_text(TORCH)
    estimator = PyTorch(entry_point="train.py", source_dir=str(tmp_path), role=yard.ROLE, image_uri=yard.PYTORCH,
                        instance_count=2, instance_type="ml.m5.xlarge", output_path=yard.OUTPUT,
                        distribution={"torch_distributed": {"enabled": True}})
    estimator.fit(wait=True, logs="All", job_name=yard.fresh("estimator"))
    shown = capfd.readouterr().out
    assert "sums 3" in shown and "on algo-1" in shown and "on algo-2" in shown
    seconds = yard.describe(estimator.latest_training_job.name)["TrainingTimeInSeconds"]
    assert f"Training seconds: {2 * seconds}" in shown


@pytest.mark.parametrize("overrides, words", [
    ({"ResourceConfig": nodes.cluster(101)}, "at most 100 instances"),
    ({"ResourceConfig": {"InstanceGroups": [
        {"InstanceGroupName": "a", "InstanceType": "ml.m5.large", "InstanceCount": 1},
        {"InstanceGroupName": "a", "InstanceType": "ml.m5.large", "InstanceCount": 1}]}}, "is used twice"),
    ({"ResourceConfig": nodes.cluster(2), **nodes.elastic("3:4")}, "outside its range 3:4"),
    ({"ResourceConfig": nodes.cluster(2), **nodes.elastic("lots")}, "min:max"),
    ({**nodes.spot(10, 20)}, "MaxWaitTimeInSeconds"),
    ({**nodes.spot(), "ResourceConfig": nodes.cluster(1, KeepAlivePeriodInSeconds=60)}, "KeepAlivePeriodInSeconds"),
    ({**nodes.checkpoints("out")}, "S3OutputPath"),
    ({**nodes.checkpoints("ckpt", "/usr/lib")}, "/usr"),
    ({"CheckpointConfig": {"S3Uri": "s3://no-such-bucket/x"}}, "no-such-bucket"),
    ({"CheckpointConfig": {"S3Uri": "gs://bucket/x"}}, "google_endpoint"),
], ids=lambda value: value if isinstance(value, str) else None)
def test_what_cannot_be_is_refused_by_name(overrides, words):
    code, message, status = yard.error_of(yard.unchecked("sagemaker").create_training_job,
                                          **yard.request_for(yard.fresh("bad"), "true", **overrides))
    assert (code, status) == ("ValidationException", 400) and words in message, message
