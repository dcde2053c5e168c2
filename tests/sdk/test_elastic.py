# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs: instances come and go while the job runs, and the program sees generations of workers."""
import json

import nodes
import yard

# Works until a file says how far it is; every worker of a generation prints its world.
WORKER = """
import os, time
from pathlib import Path
folder = Path("/opt/ml/checkpoints")
state = folder / "step"
step = int(state.read_text()) if state.exists() else 0
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
print("generation of", world, "rank", rank, "from", step, flush=True)
while step < int(os.environ.get("STEPS", "60")):
    time.sleep(0.1)
    step += 1
    if rank == 0:
        (folder / ".step").write_text(str(step))
        os.replace(folder / ".step", state)
print("done at", step, flush=True)
if rank == 0:
    Path("/opt/ml/model/step").write_text(str(step))
"""


def begin(count=1, limits="1:3", steps=60, **more):
    """Start the worker as an elastic PyTorch job; its name."""
    uri = yard.put(f"source/{yard.fresh('src')}/sourcedir.tar.gz", yard.tar_gz({"train.py": WORKER}))
    given = {"sagemaker_submit_directory": json.dumps(uri), "sagemaker_program": '"train.py"',
             "sagemaker_container_log_level": "20", "sagemaker_region": json.dumps(yard.REGION)}
    settings = {"HyperParameters": given, "ResourceConfig": nodes.cluster(count), "Environment": {"STEPS": str(steps)},
                **nodes.elastic(limits), **nodes.checkpoints(yard.fresh("elastic")), **more}
    return yard.start("elastic", "", AlgorithmSpecification={"TrainingImage": yard.PYTORCH,
                                                             "TrainingInputMode": "File"}, **settings)


def finish(name, seconds=120):
    """The end of the job, which must be a good one."""
    job = yard.wait(name, seconds)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), yard.all_lines(name)[-30:])
    return job


def test_a_job_grows_and_shrinks_while_it_runs(boxed):
    name = begin(1, "1:3", steps=300)
    nodes.wait_for_text(name, "generation of 1", seconds=60)
    grown = yard.cli("scale", name, "3")
    assert grown.returncode == 0, grown.stderr
    nodes.wait_for_text(name, "generation of 3", 3, seconds=60)
    nodes.ask("POST", f"jobs/{name}/scale", {"instances": 2})
    nodes.wait_for_text(name, "generation of 2", 2, seconds=60)
    job = nodes.stop(name)
    assert job["TrainingJobStatus"] == "Stopped"
    assert "Interrupted" not in nodes.statuses(job)
    later = [int(line.rsplit(" ", 1)[1]) for line in yard.all_lines(name) if "generation of 2" in line]
    assert later and min(later) > 0, "a new generation starts from the checkpoint"


def test_a_lost_instance_is_replaced_within_the_attempt(boxed):
    name = begin(2, "1:3", steps=120)
    nodes.wait_for_text(name, "generation of 2", 2, seconds=60)
    done = yard.cli("interrupt", name, "--node", "algo-2", "--kill")
    assert done.returncode == 0, done.stderr
    job = finish(name)
    assert yard.archive(name)["step"][1] == b"120"
    assert len([line for line in yard.all_lines(name) if line.startswith("generation of 2")]) >= 4
    nodes.check_times(job)


def test_a_notice_drains_the_instance(boxed):
    name = begin(2, "1:2", steps=120)
    nodes.wait_for_text(name, "generation of 2", 2, seconds=60)
    nodes.ask("POST", f"jobs/{name}/interrupt", {"node": "algo-2", "time": 10})
    job = finish(name)
    nodes.check_times(job)
    assert yard.archive(name)["step"][1] == b"120"


def test_the_hyperparameter_means_the_same_and_is_kept_from_the_program(boxed):
    name = yard.run_shell("range", "cat /opt/ml/input/config/hyperparameters.json",
                          HyperParameters={"trainyard_elastic": '"1:2"', "a": "b"})
    assert '{"a":"b"}' in [line.replace(" ", "") for line in yard.all_lines(name)]
    assert yard.describe(name)["HyperParameters"]["trainyard_elastic"] == '"1:2"'


def test_scaling_outside_the_range_is_refused(boxed):
    name = begin(1, "1:3", steps=300)
    answer = nodes.ask("POST", f"jobs/{name}/scale", {"instances": 4}, expect=400)
    assert "1" in answer["message"] and "3" in answer["message"]
    assert "instances" in nodes.ask("POST", f"jobs/{name}/scale", {"instances": 0}, expect=400)["message"]
    nodes.stop(name)


def test_a_job_that_is_not_elastic_cannot_be_scaled(boxed):
    name = yard.start("rigid", "echo up; sleep 60")
    yard.wait_for_line(name, "up")
    refused = yard.cli("scale", name, "2")
    assert refused.returncode != 0 and "elastic" in refused.stderr
    nodes.stop(name)
