# SPDX-License-Identifier: Apache-2.0
"""What a training program finds: /opt/ml, its variables, its channels, and nothing of others."""
import getpass
import json
import os
import re
from pathlib import Path

import yard


def printed(script, **overrides):
    """What the program wrote into output/data/said, not through the log."""
    name = yard.run_shell("box", f"( {script}\n) > /opt/ml/output/data/said 2>&1; true", **overrides)
    return yard.archive(name, "output")["said"][1].decode(), name


def test_hyperparameters_keep_order_and_text():
    given = {"zeta": "1", "alpha": "\"abc\"", "mid dle": "a'b\"c\\d", "n": "0.10", "ü": "日本", "empty": ""}
    text, _ = printed("cat /opt/ml/input/config/hyperparameters.json", HyperParameters=given)
    assert json.loads(text, object_pairs_hook=list) == list(given.items())
    text, _ = printed("cat /opt/ml/input/config/hyperparameters.json")
    assert json.loads(text) == {}


def test_resource_and_input_configuration():
    uri = yard.put("config/x")
    text, _ = printed("cd /opt/ml/input/config; cat resourceconfig.json; echo; cat inputdataconfig.json",
                      InputDataConfig=[yard.channel("train", uri, ContentType="text/csv"),
                                       yard.channel("fast", uri, InputMode="FastFile")])
    resource, channels = [json.loads(line) for line in text.splitlines() if line.strip()]
    interface = resource.pop("network_interface_name")
    assert interface in os.listdir("/sys/class/net")
    assert resource == {
        "current_host": "algo-1", "current_instance_type": "ml.m5.xlarge", "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1"], "instance_groups": [
            {"instance_group_name": "homogeneousCluster", "instance_type": "ml.m5.xlarge", "hosts": ["algo-1"]}]}
    common = {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
    assert channels == {"train": {**common, "ContentType": "text/csv"}, "fast": common}
    text, _ = printed("cat /opt/ml/input/config/inputdataconfig.json")
    assert json.loads(text) == {}


def test_channels_hold_nested_empty_and_oddly_named_objects():
    for key, body in (("a.txt", b"A"), ("deep/er/b.bin", bytes(range(256))), ("__init__.py", b""), ("folder/", b""),
                      ("sp ace+plus&.txt", b"odd"), ("日本.txt", b"j")):
        yard.put(f"chan/tree/{key}", body)
    yard.put("chan/tree2/sibling", b"s")
    listing = "cd /opt/ml/input/data; find . -mindepth 2 -printf '%y %P %s\\n' | LC_ALL=C sort"
    text, name = printed(listing + "; cp train/deep/er/b.bin /opt/ml/model/",
                         InputDataConfig=[yard.channel("train", f"s3://{yard.BUCKET}/chan/tree/"),
                                          yard.channel("one", f"s3://{yard.BUCKET}/chan/tree/a.txt")])
    found = [line.rsplit(" ", 1) for line in text.splitlines()]
    files = {path.removeprefix("f "): int(size) for path, size in found if path.startswith("f ")}
    assert files == {"train/a.txt": 1, "train/deep/er/b.bin": 256, "train/__init__.py": 0,
                     "train/sp ace+plus&.txt": 3, "train/日本.txt": 1, "one/a.txt": 1}
    assert "d train/folder" in [path for path, _ in found]
    assert yard.archive(name)["b.bin"][1] == bytes(range(256))


def test_a_prefix_without_slash_is_a_string_prefix():
    yard.put("pre/code/x.py", b"1")
    yard.put("pre/code2/y.py", b"2")
    text, _ = printed("cd /opt/ml/input/data/c; find . -type f | sort",
                      InputDataConfig=[yard.channel("c", f"s3://{yard.BUCKET}/pre/code")])
    assert "./x.py" in text.splitlines() and "y.py" in text


def test_channels_and_input_are_writable_copies():
    uri = yard.put("copy/run.sh", b"echo ran")
    text, _ = printed("cd /opt/ml/input/data/c && chmod +x run.sh && ./run.sh && echo more >> run.sh && "
                      "echo env > /opt/ml/input/made.env && cat /opt/ml/input/made.env",
                      InputDataConfig=[yard.channel("c", uri)])
    assert text.splitlines() == ["ran", "env"]
    assert yard.read("copy/run.sh") == b"echo ran"


def test_the_tree_of_folders_is_there_and_nothing_disturbing():
    text, _ = printed("cd /opt/ml; for d in model output output/data input/config input/data code; do "
                      "[ -d $d ] && [ -w $d ] && echo $d; done; ls output; ls code; "
                      "[ -e /opt/ml/metadata ] && echo metadata; true")
    assert text.split() == ["model", "output", "output/data", "input/config", "input/data", "code", "data"]


def test_variables_of_the_service_and_of_the_request():
    text, name = printed("env", Environment={"GREETING": "hello  world", "TRAINING_JOB_NAME": "forged", "EMPTY": ""})
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    assert found["GREETING"] == "hello  world" and found["EMPTY"] == ""
    assert found["TRAINING_JOB_NAME"] == name
    assert found["TRAINING_JOB_ARN"] == yard.describe(name)["TrainingJobArn"]
    assert found["AWS_REGION"] == found["AWS_DEFAULT_REGION"] == "us-east-1"
    assert found["AWS_ENDPOINT_URL"] == found["S3_ENDPOINT_URL"]
    assert found["AWS_ACCESS_KEY_ID"] and found["AWS_SECRET_ACCESS_KEY"]
    assert found["AWS_SECRET_ACCESS_KEY"] != os.environ["AWS_SECRET_ACCESS_KEY"]
    assert [variable for variable in found if variable.startswith(("SM_", "TRAINYARD_"))] == ["TRAINYARD_PROGRESS_FILE"]


def test_the_program_is_host_algo_1(boxed):
    text, _ = printed("hostname; cat /etc/hostname 2>/dev/null; grep -c algo-1 /etc/hosts; getent hosts algo-1")
    assert text.splitlines()[0] == "algo-1"
    assert re.search(r"^\S+\s+.*algo-1", text, re.MULTILINE)


def test_the_program_sees_neither_home_nor_state_nor_other_jobs(boxed, daemon):
    home = Path("~").expanduser()
    text, _ = printed(f"ls {daemon} 2>&1; ls -A {home} 2>/dev/null; ls -A /tmp; touch /usr/made-by-a-job; "
                      f"ls -d /home/* /root/.* /opt/* 2>/dev/null; echo $HOME; cat {daemon}/keys.json")
    assert "keys.json: No such file" in text or "keys.json" not in text.replace(f"{daemon}/keys.json", "")
    assert "state.db" not in text and "AKIA" not in text and "secret" not in text
    assert "trainyard-sdk-" not in text.replace(str(daemon), "")
    assert not Path("/usr/made-by-a-job").exists()
    assert "/opt/ml" in text.splitlines()
    assert "Read-only file system" in text or "Permission denied" in text
    for visible in (".bashrc", ".profile", ".ssh"):
        assert visible not in text, f"the home of {getpass.getuser()} is visible"


def test_the_program_sees_no_foreign_processes(boxed):
    text, _ = printed("ls /proc | grep '^[0-9]' | wc -l; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    count, *commands = text.splitlines()
    assert int(count) <= 10
    assert "trainyardd" not in text and "pytest" not in text, commands


def test_private_tmp_and_large_shared_memory(boxed):
    text, _ = printed("touch /tmp/mine /var/tmp/mine && df -k /dev/shm | tail -1 | awk '{print $2}'; "
                      "touch /dev/shm/x && echo writable; [ -e /dev/null ] && [ -r /dev/urandom ] && echo devices")
    size, *rest = text.split()
    assert int(size) > 65536
    assert rest == ["writable", "devices"]
    assert not Path("/tmp/mine").exists()


def test_two_jobs_at_once_do_not_meet(boxed):
    script = "echo $TRAINING_JOB_NAME > /tmp/name; echo $TRAINING_JOB_NAME > /opt/ml/model/name; sleep 0.5; " \
             "cat /tmp/name > /opt/ml/model/seen"
    names = [yard.start("pair", script) for _ in range(2)]
    for name in names:
        yard.wait(name)
        assert yard.archive(name)["seen"][1].decode().strip() == name


def test_links_in_the_model_folder_cannot_smuggle_files_out(boxed):
    name = yard.run_shell("links", "cd /opt/ml/model; echo real > real; ln -s real inside; "
                                   f"ln -s {yard.HOME}/keys.json outside; ln -s /etc/shadow shadow; mkfifo pipe")
    members = yard.archive(name)
    assert members["real"][1] == b"real\n"
    for path, (member, content) in members.items():
        assert b"root:" not in (content or b"") and b"secret" not in (content or b""), (path, member)
