# SPDX-License-Identifier: Apache-2.0
"""Checkpoint files: one per step, complete or not there, with a checksum at the end.

A file is what torch.save or pickle.dump writes, plus one line that both readers ignore: torch.load(file) works without us.
Writers make `.step-….tmp` beside it, fsync, rename: nobody ever sees half a file under a checkpoint's name, and a file that
a machine tore apart anyway is told by its last line."""

import io
import os
import pickle
import re
import sys
import zlib

_NAME = re.compile(r"step-(\d{9,})\.ckpt")
_END = re.compile(rb"\ntrainyard checkpoint 1 crc32 ([0-9a-f]{8}) bytes ([0-9]{20})\n")
_END_SIZE = len("\ntrainyard checkpoint 1 crc32  bytes \n") + 8 + 20
_CHUNK = 1 << 20
_ZIP = b"PK\x03\x04"  # what torch.save writes; no pickle begins like that


def name_of(step):
    return "step-{:09d}.ckpt".format(step)


def steps_in(folder):
    """Steps that have a file, newest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted((int(found.group(1)) for found in map(_NAME.fullmatch, names) if found), reverse=True)


class _Summed:
    """A file being written and the checksum of what went in."""

    def __init__(self, file):
        self.file, self.sum, self.size = file, 0, 0

    def write(self, data):
        self.sum = zlib.crc32(data, self.sum)
        self.size += memoryview(data).nbytes
        self.file.write(data)
        return memoryview(data).nbytes

    def flush(self):
        self.file.flush()


def write(folder, step, document, keep):
    """Put `document` into the file of `step`, durably, then remove the oldest files beyond `keep`."""
    os.makedirs(folder, exist_ok=True)
    final = os.path.join(folder, name_of(step))
    draft = os.path.join(folder, ".{}.{}.tmp".format(name_of(step), os.getpid()))
    try:
        with open(draft, "wb") as file:
            summed = _Summed(file)
            torch = sys.modules.get("torch")
            if torch is not None:
                torch.save(document, summed)
            else:
                pickle.dump(document, summed, protocol=4)
            file.write("\ntrainyard checkpoint 1 crc32 {:08x} bytes {:020d}\n".format(summed.sum, summed.size).encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, final)
    except BaseException:
        remove(draft)
        raise
    _sync_folder(folder)
    # Files of later steps are somebody else's: torn ones that were skipped, or another run's.
    for old in [other for other in steps_in(folder) if other <= step][keep:]:
        remove(os.path.join(folder, name_of(old)))


def _sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems have no such thing
    finally:
        os.close(descriptor)


def remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def remove_drafts(folder):
    """What writers that were killed have left."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(".step-") and name.endswith(".tmp"):
            remove(os.path.join(folder, name))


def checksum(path):
    """Of a whole file; raises ValueError naming what is wrong with one that is torn or corrupt."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size - _END_SIZE
        if size < 0:
            raise ValueError("it is {} bytes short of anything".format(-size))
        file.seek(size)
        end = _END.fullmatch(file.read(_END_SIZE))
        if not end:
            raise ValueError("its last line is missing: it was not written to the end")
        if int(end.group(2)) != size:
            raise ValueError("it has {} bytes and should have {}".format(size, int(end.group(2))))
        file.seek(0)
        total, left = 0, size
        while left > 0:
            chunk = file.read(min(_CHUNK, left))
            if not chunk:
                raise ValueError("it became shorter while it was read")
            total = zlib.crc32(chunk, total)
            left -= len(chunk)
        if total != int(end.group(1), 16):
            raise ValueError("its checksum is {:08x} and should be {}".format(total, end.group(1).decode()))
        return total


def newest(folder, say):
    """(step, checksum) of the newest whole file, or None. `say` hears of every one that is skipped."""
    for step in steps_in(folder):
        path = os.path.join(folder, name_of(step))
        try:
            return step, checksum(path)
        except (OSError, ValueError) as error:
            say("{} is skipped: {}".format(path, error))
    return None


def read(source):
    """The document in a path or in bytes. Tensors come to the CPU. A checkpoint is trusted as far as the program that wrote
    it: what torch's safe loading refuses (objects other than tensors and plain values) is unpickled."""
    data = io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb")
    with data:
        is_torch = data.read(len(_ZIP)) == _ZIP
        data.seek(0)
        if not is_torch:
            return pickle.load(data)
        import torch

        try:
            return torch.load(data, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            data.seek(0)
            return torch.load(data, map_location="cpu", weights_only=False)
