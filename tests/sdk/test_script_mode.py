# SPDX-License-Identifier: Apache-2.0
"""AWS's framework images without images: what their toolkit does with a source archive."""
import json
import tarfile

import pytest

import yard

PRINT_ALL = """
import json, os, sys
with open(os.environ["SM_MODEL_DIR"] + "/seen.json", "w") as file:
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "python": sys.version}, file)
"""


def run_script(files, hyperparameters=None, program="train.py", expect="Completed", image=yard.PYTORCH, **overrides):
    """Run a source archive in script mode as SDK v2's PyTorch estimator asks for it; the job's name."""
    key = f"source/{yard.fresh('src')}/sourcedir.tar.gz"
    uri = yard.put(key, files if isinstance(files, bytes) else yard.tar_gz(files))
    given = {k: json.dumps(v) for k, v in (hyperparameters or {}).items()}
    given |= {"sagemaker_submit_directory": json.dumps(uri), "sagemaker_program": json.dumps(program),
              "sagemaker_container_log_level": "20", "sagemaker_job_name": json.dumps("x"),
              "sagemaker_region": json.dumps(yard.REGION)}
    return yard.run_shell("script", "", expect=expect, HyperParameters=given,
                          AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File"}, **overrides)


def seen(*arguments, **options):
    """What the program saw of itself."""
    name = run_script(*arguments, **options)
    return json.loads(yard.archive(name)["seen.json"][1]), name


def reason(*arguments, **options):
    """FailureReason of a run that must fail."""
    return yard.describe(run_script(*arguments, expect="Failed", **options))["FailureReason"]


@pytest.fixture(scope="module")
def everything(daemon):
    """One run with every kind of hyperparameter and two channels."""
    uri = yard.put("script/data/x.txt")
    hyperparameters = {"epochs": 3, "lr": 0.1, "name": "two words", "flag": True, "off": False, "nothing": None,
                       "layers": [1, 2, "a"], "opts": {"b": 2, "a": "x"}, "n": 1, "under_score": "u", "hy-phen": "h"}
    return seen({"train.py": PRINT_ALL}, hyperparameters, InputDataConfig=[
        yard.channel("train", uri), yard.channel("test-set", uri, ContentType="text/csv")])


def test_hyperparameters_become_arguments_as_the_toolkit_maps_them(everything):
    assert everything[0]["argv"] == [
        "--epochs", "3", "--flag", "True", "--hy-phen", "h", "--layers", "[1, 2, 'a']", "--lr", "0.1", "-n", "1",
        "--name", "two words", "--nothing", "", "--off", "False", "--opts", "a=x,b=2", "--under_score", "u"]


def test_variables_of_the_toolkit(everything):
    found, name = everything
    env = found["env"]
    expected = {
        "SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1", "SM_CURRENT_INSTANCE_TYPE": "ml.m5.xlarge",
        "SM_CURRENT_INSTANCE_GROUP": "homogeneousCluster", "SM_CURRENT_INSTANCE_GROUP_HOSTS": '["algo-1"]',
        "SM_INSTANCE_GROUPS": '["homogeneousCluster"]', "SM_IS_HETERO": "false", "SM_NUM_GPUS": "0",
        "SM_NUM_NEURONS": "0", "SM_MODEL_DIR": "/opt/ml/model", "SM_INPUT_DIR": "/opt/ml/input",
        "SM_INPUT_CONFIG_DIR": "/opt/ml/input/config", "SM_OUTPUT_DIR": "/opt/ml/output",
        "SM_OUTPUT_DATA_DIR": "/opt/ml/output/data", "SM_OUTPUT_INTERMEDIATE_DIR": "/opt/ml/output/intermediate",
        "SM_USER_ENTRY_POINT": "train.py", "SM_MODULE_NAME": "train", "SM_LOG_LEVEL": "20",
        "SM_CHANNELS": '["test-set","train"]', "SM_CHANNEL_TRAIN": "/opt/ml/input/data/train",
        "SM_CHANNEL_TEST-SET": "/opt/ml/input/data/test-set", "SM_HP_EPOCHS": "3", "SM_HP_LR": "0.1",
        "SM_HP_NAME": "two words", "SM_HP_FLAG": "true", "SM_HP_LAYERS": '[1,2,"a"]', "SM_HP_OPTS": '{"a":"x","b":2}',
        "SM_HP_HY-PHEN": "h", "SM_HP_UNDER_SCORE": "u", "SM_HP_N": "1", "MASTER_ADDR": "algo-1", "MASTER_PORT": "7777",
        "CURRENT_HOST": "algo-1", "TRAINING_JOB_NAME": name}
    assert {key: env.get(key) for key in expected} == expected
    assert json.loads(env["SM_HPS"]) == {
        "epochs": 3, "lr": 0.1, "name": "two words", "flag": True, "off": False, "nothing": None, "layers": [1, 2, "a"],
        "opts": {"b": 2, "a": "x"}, "n": 1, "under_score": "u", "hy-phen": "h"}
    assert env["SM_HPS"] == json.dumps(json.loads(env["SM_HPS"]), sort_keys=True, separators=(",", ":"))
    assert json.loads(env["SM_USER_ARGS"]) == found["argv"]
    assert int(env["SM_NUM_CPUS"]) >= 1
    assert env["SM_MODULE_DIR"].startswith(f"s3://{yard.BUCKET}/source/")
    assert env["PYTHONPATH"].split(":")[0] == "/opt/ml/code"
    assert json.loads(env["SM_INPUT_DATA_CONFIG"])["test-set"] == {
        "TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None",
        "ContentType": "text/csv"}
    assert json.loads(env["SM_RESOURCE_CONFIG"])["current_group_name"] == "homogeneousCluster"
    training = json.loads(env["SM_TRAINING_ENV"])
    assert training["channel_input_dirs"] == {"train": "/opt/ml/input/data/train",
                                              "test-set": "/opt/ml/input/data/test-set"}
    assert training["user_entry_point"] == "train.py" and training["is_master"] is True
    assert found["cwd"] == "/opt/ml/code"


def test_the_log_names_the_interpreter_and_the_request(everything):
    text = "\n".join(yard.log_lines(everything[1]))
    assert yard.PYTORCH in text
    assert ".venv/train/bin/python" in text and "torch 2." in text
    described = json.loads(yard.cli("describe", "-o", "json", everything[1]).stdout)["TrainyardEnvironment"]
    assert ".venv/train/bin/python" in described["Description"] and described["Image"] == yard.PYTORCH


def test_a_shell_entry_point_in_a_sub_folder():
    files = {"steps/run.sh": "#!/bin/bash\nset -e\n. steps/lib.sh\nsay \"$0 $*\"\n"
                             "echo $SM_HP_STAGE > /opt/ml/model/stage\n",
             "steps/lib.sh": "say() { echo \"said: $1\"; }\n"}
    name = run_script(files, {"stage": 0, "stop_stage": 3, "text": "it's $HOME"}, program="steps/run.sh")
    assert "said: ./steps/run.sh --stage 0 --stop_stage 3 --text it's $HOME" in yard.log_lines(name)
    assert yard.archive(name)["stage"][1] == b"0\n"


def test_modules_beside_the_entry_point_can_be_imported():
    files = {"pkg/__init__.py": "", "pkg/deep.py": "WORD = 'imported'",
             "train.py": "from pkg.deep import WORD; print(WORD)"}
    assert "imported" in yard.log_lines(run_script(files))


def test_requirements_that_are_there_already_cost_nothing():
    name = run_script({"train.py": "import numpy; print('numpy', numpy.__version__)",
                       "requirements.txt": "numpy>=1.20\n# x\n"})
    lines = yard.log_lines(name)
    assert any("everything is installed already" in line for line in lines), lines
    assert any(line.startswith("numpy ") for line in lines)


def test_requirements_that_cannot_be_had_fail_with_their_name():
    text = reason({"train.py": "print('never')", "requirements.txt": "trainyard-no-such-package-anywhere==9.9\n"},
                  Environment={"PIP_NO_INDEX": "1"})
    assert text.startswith("AlgorithmError: InstallRequirementsError")
    assert "trainyard-no-such-package-anywhere" in text and text.endswith("exit code: 1")


def test_requirements_from_a_wheel_in_the_source(tmp_path):
    import io
    import zipfile
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        wheel.writestr("tinywheel.py", "ANSWER = 42\n")
        info = "tinywheel-1.0.dist-info/"
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tinywheel\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", f"tinywheel.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")
    files = {"train.py": "import tinywheel; print('answer', tinywheel.ANSWER)",
             "requirements.txt": "tinywheel==1.0\n", "wheels/tinywheel-1.0-py3-none-any.whl": buffer.getvalue()}
    assert "answer 42" in yard.log_lines(run_script(files))
    again = yard.log_lines(run_script(files))
    assert "answer 42" in again
    assert any("taken from the cache" in line for line in again), again


def test_an_exception_is_the_reason_and_the_exit_code_is_the_toolkits():
    text = reason({"train.py": "def f():\n    raise ValueError('bad learning rate: -1')\nf()\n"}, {"lr": -1})
    assert text.startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage \"ValueError: bad "
                           "learning rate: -1")
    assert "train.py --lr -1" in text and text.endswith(", exit code: 1")
    text = reason({"train.py": "import sys; print('giving up', file=sys.stderr); sys.exit(9)"})
    assert "ExitCode 9" in text and "giving up" in text and text.endswith(", exit code: 1")


def test_an_entry_point_that_is_not_in_the_archive_is_named():
    text = reason({"other.py": "", "util/helper.py": ""}, program="train.py")
    assert '"train.py"' in text and "other.py" in text


def test_source_that_does_not_exist_is_named():
    name = yard.run_shell("nosource", "", expect="Failed", HyperParameters={
        "sagemaker_submit_directory": f'"s3://{yard.BUCKET}/no/sourcedir.tar.gz"', "sagemaker_program": '"train.py"'},
        AlgorithmSpecification={"TrainingImage": yard.PYTORCH, "TrainingInputMode": "File"})
    text = yard.describe(name)["FailureReason"]
    assert text.startswith("ClientError: ") and f"s3://{yard.BUCKET}/no/sourcedir.tar.gz" in text
    name = yard.run_shell("noprogram", "", expect="Failed",
                          AlgorithmSpecification={"TrainingImage": yard.PYTORCH, "TrainingInputMode": "File"})
    assert "entry_point" in yard.describe(name)["FailureReason"]


def member(path, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(path)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("entry", [
    member("../evil.txt"), member("a/../../evil.txt"), member("/tmp/evil.txt"), member("out", tarfile.SYMTYPE, "/tmp"),
    member("up", tarfile.SYMTYPE, "../.."), member("hard", tarfile.LNKTYPE, "../../../../etc/passwd"),
    member("pipe", tarfile.FIFOTYPE), member("dev", tarfile.CHRTYPE)],
    ids=["dotdot", "inner-dotdot", "absolute", "link-absolute", "link-up", "hard-link", "fifo", "device"])
def test_evil_archives_are_refused_by_entry_and_write_nothing(entry, daemon):
    text = reason({"train.py": "print('must not run')", entry.name: entry})
    assert text.startswith("ClientError: source code: ")
    assert f'"{entry.name}"' in text, text
    assert not [path for path in daemon.rglob("evil.txt")]


def test_a_link_that_is_written_through_is_refused():
    through = tarfile.TarInfo("dir/evil.txt")
    text = reason({"dir": member("dir", tarfile.SYMTYPE, "sub"), "dir/evil.txt": through, "train.py": ""})
    assert text.startswith("ClientError: source code: ")
    assert 'entry "dir' in text and "written through a link" in text


def test_what_is_no_archive_is_said():
    text = reason(b"this is not a tar.gz")
    assert text.startswith("ClientError: source code: ") and "sourcedir.tar.gz" in text and "not a readable" in text


def test_the_other_framework_images_find_their_python():
    host = "dkr.ecr.us-east-1.amazonaws.com"
    found, _ = seen({"train.py": PRINT_ALL}, image=f"683313688378.{host}/sagemaker-scikit-learn:1.2-1-cpu-py3")
    assert found["python"].startswith("3.")
    code, message, _ = yard.error_of(yard.client("sagemaker").create_training_job, **yard.request_for(
        yard.fresh("mx"), AlgorithmSpecification={"TrainingImage": f"763104351884.{host}/mxnet-training:1.9.0-cpu-py38",
                                                  "TrainingInputMode": "File"}))
    assert code == "ValidationException" and "mxnet" in message


def test_a_package_with_setup_py_runs_as_a_module():
    files = {"setup.py": "from setuptools import setup\nsetup(name='tinypkg', version='1', py_modules=['train'])\n",
             "train.py": "import sys\nprint('module', __name__, sys.argv[1:])\n"}
    name = run_script(files, {"x": 1}, Environment={"PIP_NO_BUILD_ISOLATION": "1", "PIP_NO_INDEX": "1"})
    assert "module __main__ ['-x', '1']" in yard.log_lines(name)
