# SPDX-License-Identifier: Apache-2.0
"""Everything a training needs to go on, as one object that is saved and found again."""

import atexit
import os
import signal
import sys
import threading
import time
import weakref

from . import background, environment, files

_EXIT_ASKED = 143  # 128 + SIGTERM: ended because it was told to, nothing is wrong


def _say(text):
    print("trainyard: " + text, file=sys.stderr, flush=True)


def _bare(value):
    """Without the wrapper that exists or not depending on the number of ranks."""
    return value.module if type(value).__name__ in ("DistributedDataParallel", "DataParallel") else value


def _is_stateful(value):
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


class State:
    """State(model=…, optimizer=…, sampler=…, epoch=0): whatever has state_dict and load_state_dict, and plain values.

        state.resume()                     # the newest whole checkpoint, or False
        for …:                             # state.epoch, state.model: what was passed in
            …
            state.checkpoint(step)         # at the end of each step: saves when it is time, or when asked to

    Files lie in `folder` (default: environment.checkpoint_folder()), one per step; `keep` of them stay. `every` steps and
    `seconds` say when should_save() is true by itself. Rank 0 alone writes. `background` is "auto" (a forked child, else a
    copy and a thread), "fork", "thread" or "off". All methods belong to the training thread."""

    def __init__(self, folder=None, keep=3, every=None, seconds=None, background="auto", **values):
        if keep < 1:
            raise ValueError("State: keep={} would remove the checkpoint just written; use 1 or more".format(keep))
        if background not in ("auto", "fork", "thread", "off"):
            raise ValueError("State: background={!r} is none of auto, fork, thread, off".format(background))
        taken = [name for name in values if name.startswith("_") or hasattr(State, name) or name in ("step", "folder")]
        if taken:
            raise ValueError("State: {} cannot be the name of a value".format(", ".join(sorted(taken))))
        own = self.__dict__
        own["_values"] = values
        own["folder"] = os.fspath(folder or environment.checkpoint_folder())
        own["step"] = 0  # of the last checkpoint saved or resumed
        own["_keep"], own["_every"], own["_seconds"], own["_background"] = keep, every, seconds, background
        own["_writer"] = None  # in flight
        own["_saved_at"] = time.monotonic()
        own["_request"] = os.environ.get("TRAINYARD_CHECKPOINT_REQUEST") or None
        own["_told"] = _Told()
        own["_answered"] = None  # "request" or "signal", once saved for it
        atexit.register(_wait_at_exit, weakref.ref(self))
        if background in ("auto", "fork"):
            self._prepare()

    def _prepare(self):
        """Make the first save as quick as the later ones."""
        background.use_huge_pages([_bare(value).state_dict() if _is_stateful(value) else value
                                   for value in self._values.values()])

    # ---- plain values are attributes

    def __getattr__(self, name):
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError("State has no value {!r}".format(name)) from None

    def __setattr__(self, name, value):
        if name in self.__dict__:
            self.__dict__[name] = value
        elif name in self._values:
            self._values[name] = value
        else:
            raise AttributeError("State has no value {!r}; name it when the State is made".format(name))

    # ---- resuming

    def resume(self):
        """Load the newest whole checkpoint; True if there was one, and then `step` is its step. Torn and corrupt files are
        skipped for older ones. Once torch.distributed is initialised it is collective: all ranks load the newest one that
        any of them has; who lacks it gets it sent. Raises ValueError when it does not fit the values."""
        self.wait()
        if environment.rank() == 0:
            files.remove_drafts(self.folder)
        found = files.newest(self.folder, _say)
        found, source = self._agree(found)
        if found is None:
            return False
        document = files.read(source)
        self._put(document)
        self.__dict__["step"] = document["step"]
        self.__dict__["_saved_at"] = time.monotonic()
        return True

    def _agree(self, mine):
        """(newest that any rank has, where this rank reads it)."""
        path = os.path.join(self.folder, files.name_of(mine[0])) if mine else None
        group = environment.process_group()
        if group is None or group.get_world_size() == 1:
            return mine, path
        everyone = [None] * group.get_world_size()
        group.all_gather_object(everyone, mine)
        best = max((each for each in everyone if each), default=None)
        if best is None or all(each == best for each in everyone):
            return best, path
        owner = everyone.index(best)
        box = [None]
        if group.get_rank() == owner:
            with open(path, "rb") as file:
                box = [file.read()]
        group.broadcast_object_list(box, src=owner)
        return best, path if mine == best else box[0]

    def _put(self, document):
        saved = document["values"]
        missing = [name for name, value in self._values.items() if _is_stateful(value) and name not in saved]
        if missing:
            raise ValueError("the checkpoint of step {} in {} has no {}; it belongs to another program or version".format(
                document["step"], self.folder, ", ".join(missing)))
        for name, value in self._values.items():
            if name not in saved:
                _say("the checkpoint has no {}: it stays {!r}".format(name, value))
            elif _is_stateful(value):
                _bare(value).load_state_dict(saved[name])
            else:
                self._values[name] = saved[name]

    # ---- saving

    def should_save(self, step=None):
        """True when `every` steps or `seconds` are over, or when somebody asks for a checkpoint now: the launcher's request
        file, or SIGTERM. Not while one is being written, unless asked. About two microseconds."""
        if self.asked():
            return True
        if self._writer is not None and self._writer.ended(wait=False) is None:
            return False
        if self._every and step is not None and step - self.step >= self._every:
            return True
        return bool(self._seconds) and time.monotonic() - self._saved_at >= self._seconds

    def asked(self):
        """How a checkpoint is asked for and not yet saved: "request", "signal" or None."""
        if self._request and os.path.exists(self._request):
            return "request"
        return "signal" if self._told.signalled and self._answered != "signal" else None

    def save(self, step):
        """Write the file of `step` (rank 0; nothing elsewhere). Returns as soon as training may change the values: at once
        with a background writer, when the file is durable if the checkpoint was asked for. Waits for one in flight."""
        asked = self.asked()
        self.__dict__["step"] = step
        self.__dict__["_saved_at"] = time.monotonic()
        if environment.rank() != 0:
            return
        self._finish(raises=False)
        values = {name: _bare(value).state_dict() if _is_stateful(value) else value for name, value in self._values.items()}
        document = {"step": int(step), "values": values}
        way = "off" if asked else self._background
        if way == "auto":
            way = "fork" if background.can_fork(document) else "thread"
        if way == "off":
            files.write(self.folder, step, document, self._keep)
        elif way == "fork":
            writer = background.Forked(lambda: files.write(self.folder, step, document, self._keep))
            self.__dict__["_writer"] = writer
            background.use_huge_pages(document, after=writer.pid)
        else:
            copied = background.snapshot(document)
            self.__dict__["_writer"] = background.Threaded(lambda: files.write(self.folder, step, copied, self._keep))
        if asked:
            self.__dict__["_answered"] = asked
            if asked == "request":
                files.remove(self._request)  # says "saved" where nobody watches the folder

    def checkpoint(self, step):
        """The whole protocol at the end of a step: save if should_save(step), leave if that was asked for. True if saved."""
        if not self.should_save(step):
            return False
        self.save(step)
        self.leave()
        return True

    def leave(self, patience=10):
        """After a save that was asked for; nothing otherwise. Ends the program with 143 if SIGTERM asked. If the launcher
        asked it is about to end this process: steps taken now would be taken again, so wait for it, `patience` seconds at
        most. Only rank 0 leaves; the others notice, or are ended."""
        answered = self._answered
        if answered is None or environment.rank() != 0:
            return
        self.__dict__["_answered"] = None if answered == "request" else answered
        end = time.monotonic() + patience
        while answered == "request" and not self._told.signalled and time.monotonic() < end:
            time.sleep(0.02)
        if self._told.signalled:
            sys.exit(_EXIT_ASKED)

    def wait(self):
        """Until nothing is in flight. Raises RuntimeError if the last save has failed."""
        self._finish(raises=True)

    def _finish(self, raises):
        writer = self._writer
        if writer is None:
            return
        ending = writer.ended(wait=True)
        self.__dict__["_writer"] = None
        if ending and raises:
            raise RuntimeError("the checkpoint in {} was not written: {}".format(self.folder, ending))
        if ending:
            _say("a checkpoint in {} was not written: {}".format(self.folder, ending))


class _Told:
    """Remembers a SIGTERM, one for the process; a handler that was there before is called too."""

    signalled = False
    _before = None
    _installed = False

    def __init__(self):
        if _Told._installed or threading.current_thread() is not threading.main_thread():
            return
        _Told._before = signal.signal(signal.SIGTERM, _Told._on_signal)
        _Told._installed = True

    @staticmethod
    def _on_signal(number, frame):
        _Told.signalled = True
        if callable(_Told._before):
            _Told._before(number, frame)


def _wait_at_exit(reference):
    state = reference()
    if state is not None:
        state._finish(raises=False)
