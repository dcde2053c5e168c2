# SPDX-License-Identifier: Apache-2.0
"""A full disk: uploads are refused clearly and quickly, nothing stored is harmed, and with space again all works again.

    full_disk_test.py BIN

The home lies on a small tmpfs in a mount namespace of its own. That takes root; without it the test says so and passes.
"""
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import crash_test  # noqa: E402
import yard  # noqa: E402
from crash_test import Broken, expect  # noqa: E402

DISK_MIB, OBJECT_MIB = 64, 4
REFUSAL_SECONDS = 5  # with all the retries that botocore makes by default
INSIDE = "--inside"


def client():
    """S3 as boto3 makes it by default, retries included."""
    import boto3
    return boto3.client("s3", region_name=yard.REGION)


def fill(s3, dice):
    """Upload until the disk is full: ({key: digest}, the refusal, its seconds)."""
    stored = {}
    for size in (OBJECT_MIB << 20, 256 << 10, 16 << 10):  # down to the last corner
        for _ in range(DISK_MIB * 64):
            key, body = f"fill/{len(stored):05d}", dice.randbytes(size)
            started = time.monotonic()
            try:
                s3.put_object(Bucket=yard.BUCKET, Key=key, Body=body)
            except crash_test.ClientError as error:
                refusal, seconds = error, time.monotonic() - started
                break
            stored[key] = hashlib.sha256(body).hexdigest()
        else:
            raise Broken(f"{DISK_MIB} MiB never became full")
        check_refusal(refusal, seconds)
    return stored, refusal, seconds


def check_refusal(error, seconds):
    code, answer = error.response["Error"]["Code"], error.response["ResponseMetadata"]
    status, retries = answer["HTTPStatusCode"], answer.get("RetryAttempts", 0)
    told = f"{status} {code}, {error.response['Error'].get('Message')}, after {retries} retries and {seconds:.2f} s"
    expect(status != 500 and code != "InternalError", f"a full disk is no internal error: {told}")
    expect(seconds < REFUSAL_SECONDS and retries <= 4, f"the refusal took too long: {told}")


def check_intact(s3, stored):
    for key, digest in stored.items():
        body = s3.get_object(Bucket=yard.BUCKET, Key=key)["Body"].read()
        expect(hashlib.sha256(body).hexdigest() == digest, f"{key} changed when the disk became full")
    listed = set(yard.keys("fill/"))
    expect(listed == set(stored), f"the listing differs: {sorted(listed ^ set(stored))[:5]}")


def free_and_go_on(s3, stored):
    """With space again, uploads and a job."""
    for key in stored:
        s3.delete_object(Bucket=yard.BUCKET, Key=key)
    started = time.monotonic()

    def upload():
        try:
            s3.put_object(Bucket=yard.BUCKET, Key="again", Body=b"x" * (OBJECT_MIB << 20))
            return True
        except crash_test.ClientError:
            return False

    crash_test.eventually(upload, 10, "uploads did not work again after everything was deleted")
    seconds = time.monotonic() - started
    crash_test.create("after-full-disk", 20)
    crash_test.check_complete("after-full-disk", crash_test.ended("after-full-disk", 30), 20)
    return seconds


def inside(binaries, folder):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0700", "tmpfs", folder],
                             capture_output=True, text=True, check=False)
    if mounted.returncode:
        print(f"full_disk_test: skipped: no tmpfs can be mounted here: {mounted.stderr.strip()}")
        return 0
    tempfile.tempdir = folder
    trainyard, failed = None, 0
    try:
        trainyard = crash_test.Yard(binaries)
        s3 = client()
        stored, refusal, seconds = fill(s3, random.Random(64))
        check_intact(s3, stored)
        yard.client("sagemaker").list_training_jobs()
        gone = next(iter(stored))  # deleting works on a full disk, and is the way out of it
        s3.delete_object(Bucket=yard.BUCKET, Key=gone)
        del stored[gone]
        trainyard.kill()
        trainyard.up()
        check_intact(s3, stored)
        again = free_and_go_on(s3, stored)
        print(f"full_disk_test: passed: {len(stored)} objects stay, then {refusal.response['Error']['Code']} "
              f"({refusal.response['ResponseMetadata']['HTTPStatusCode']}) in {seconds:.2f} s; "
              f"uploads again after {again:.2f} s")
    except Exception as error:  # every one is a finding
        failed = 1
        print(f"full_disk_test: FAILED: {type(error).__name__}: {error}\n{yard.daemon_log_tail()}")
    finally:
        if trainyard:
            trainyard.daemon.kill()
            trainyard.daemon.wait()
    return failed


def main():
    binaries = Path(sys.argv[1]).resolve()
    if INSIDE in sys.argv:
        return inside(binaries, sys.argv[-1])
    if os.geteuid() != 0:
        print("full_disk_test: skipped: only root can mount the small disk it needs")
        return 0
    unshare = ["unshare", "--mount", "--propagation", "private"]
    possible = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if possible.returncode:
        print(f"full_disk_test: skipped: no mount namespace of its own: {possible.stderr.strip()}")
        return 0
    folder = tempfile.mkdtemp(prefix="trainyard-full-")
    try:
        return subprocess.run([*unshare, sys.executable, __file__, str(binaries), INSIDE, folder],
                              timeout=120, check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
