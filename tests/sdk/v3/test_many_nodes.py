# SPDX-License-Identifier: Apache-2.0
"""SDK v3's ModelTrainer with several instances and with spot: its Torchrun driver, its log follower, its settings."""
import json
import logging

import pytest

import nodes
import yard

SCRIPT = """
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
        json.dump({"sum": int(total), "hosts": json.loads(os.environ["SM_HOSTS"])}, file)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def session(daemon):
    from sagemaker.core.helper.session_helper import Session
    return Session()


def trainer(session, tmp_path, script, count, **options):
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    source = tmp_path / "src"
    source.mkdir()
    (source / "train.py").write_text(script)
    compute = options.pop("compute", {})
    return ModelTrainer(training_image=yard.PYTORCH,
                        source_code=SourceCode(source_dir=str(source), entry_script="train.py"),
                        compute=Compute(instance_type="ml.m5.large", instance_count=count, **compute),
                        sagemaker_session=session, role=yard.ROLE, base_job_name="v3many", **options)


def test_torchrun_on_two_instances_of_two_processes(session, tmp_path, caplog, boxed):
    from sagemaker.train.distributed import Torchrun
    caplog.set_level(logging.INFO)
    model = trainer(session, tmp_path, SCRIPT, 2, distributed=Torchrun(process_count_per_node=2))
    model.train(wait=True, logs=True)
    job = model._latest_training_job
    job.refresh()
    name = job.training_job_name
    assert job.training_job_status == "Completed", (job.failure_reason, yard.all_lines(name)[-20:])
    bucket, key = job.model_artifacts.s3_model_artifacts.removeprefix("s3://").split("/", 1)
    import io
    import tarfile
    with tarfile.open(fileobj=io.BytesIO(yard.read(key, bucket))) as tar:
        assert json.load(tar.extractfile("sum.json")) == {"sum": 10, "hosts": ["algo-1", "algo-2"]}
    lines = [line for line in yard.all_lines(name) if " sums " in line]
    assert len(lines) == 4 and {line.split(" on ")[1].split()[0] for line in lines} == {"algo-1", "algo-2"}
    shown = [record.getMessage() for record in caplog.records]
    for host in ("algo-1", "algo-2"):
        assert any(host in text and "sums 10" in text for text in shown), "the SDK shows the log of " + host


def test_a_spot_trainer_has_its_checkpoints(session, tmp_path, boxed):
    from sagemaker.train.configs import CheckpointConfig, StoppingCondition
    prefix = yard.fresh("v3ckpt")
    script = "open('/opt/ml/checkpoints/state', 'w').write('here'); print('saved')"
    model = trainer(session, tmp_path, script, 1, compute={"enable_managed_spot_training": True},
                    stopping_condition=StoppingCondition(max_runtime_in_seconds=60, max_wait_time_in_seconds=120),
                    checkpoint_config=CheckpointConfig(s3_uri=f"s3://{yard.BUCKET}/{prefix}"))
    model.train(wait=True, logs=False)
    job = yard.describe(model._latest_training_job.training_job_name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert job["EnableManagedSpotTraining"] is True
    assert yard.read(f"{prefix}/state") == b"here"
    nodes.check_times(job)
