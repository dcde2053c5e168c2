"""A shell recipe in a sub-folder of the source as entry point, with the generic Estimator of the SageMaker SDK v2."""

import pathlib
import tarfile
import tempfile

import numpy
import torch
from sagemaker import Session, get_execution_role, image_uris
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.estimator import Estimator
from sagemaker.s3 import S3Downloader
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
LEAST_ACCURACY = 0.95


def main():
    session = Session()
    data = load_digits()
    rows = numpy.column_stack([data.target, data.data])
    train, test = train_test_split(rows, test_size=0.2, random_state=1, stratify=data.target)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        numpy.savetxt(folder / "digits.csv", train, fmt="%d", delimiter=",")
        channel = session.upload_data(str(folder / "digits.csv"), key_prefix="stages/train")
        estimator = Estimator(
            image_uri=image_uris.retrieve("pytorch", session.boto_region_name, version="2.8", py_version="py312",
                                          instance_type="ml.m5.large", image_scope="training"),
            source_dir=str(HERE / "source"),
            entry_point="recipes/digits/run.sh",
            role=get_execution_role(),
            instance_type="ml.m5.large",
            instance_count=1,
            hyperparameters={"stage": -1, "stop_stage": 6, "epochs": 8, "average_num": 3},
            metric_definitions=[{"Name": "cv_loss", "Regex": r"CV info cv_loss ([0-9\.]+)"}],
            base_job_name="stages",
            sagemaker_session=session,
        )
        estimator.fit({"train": channel})
        metrics = TrainingJobAnalytics(estimator.latest_training_job.name, sagemaker_session=session).dataframe()
        print(metrics.to_string(index=False))
        assert set(metrics["metric_name"]) == {"cv_loss"}, "the metric is recorded"

        S3Downloader.download(estimator.model_data, name, sagemaker_session=session)
        with tarfile.open(folder / "model.tar.gz") as archive:
            archive.extractall(folder / "model")
        pixels = torch.tensor(test[:, 1:], dtype=torch.float32)
        for file in ("final.zip", "final_quant.zip"):
            path = folder / "model" / file
            model = torch.jit.load(str(path)).eval()
            with torch.no_grad():
                accuracy = float((model(pixels).argmax(1).numpy() == test[:, 0]).mean())
            print(f"{file}: {path.stat().st_size:,} bytes, test accuracy {accuracy:.4f}")
            assert accuracy >= LEAST_ACCURACY, f"expected at least {LEAST_ACCURACY}"
        sizes = [(folder / "model" / file).stat().st_size for file in ("final_quant.zip", "final.zip")]
        assert sizes[0] < sizes[1] / 2, "8 bits take less than half the space"


if __name__ == "__main__":
    main()
