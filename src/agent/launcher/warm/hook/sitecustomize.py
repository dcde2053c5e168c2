# SPDX-License-Identifier: Apache-2.0
"""Holds a starting interpreter before its first line, with the script's imports done.

`site` imports this module because the launcher put its folder in front of PYTHONPATH; the script
has not been opened yet. The conversation is on a SOCK_SEQPACKET socket, texts separated by NUL:

    launcher                                        here
    probe | import, what to import  ------------->
                                    <-------------  hello (probe) | ready | cold, why
    go, environment  [stdout, stderr, cgroup] --->
                                    <-------------  prepared | stale, why
    run                             ------------->  back to the interpreter

The script runs only after "run": whatever goes wrong before ends the process, and the launcher
starts a cold one. What this module changes it changes back; it leaves no module behind.
"""
import os
import sys


def _environment_from(texts):
    result = {}
    for text in texts:
        name, equals, value = text.partition(b"=")
        if name and equals:
            result.setdefault(name, value)
    return result


class _EnvironmentWatch:
    """Records which variables the imports read or write; all of them once they are listed."""

    _METHODS = ("__getitem__", "__setitem__", "__delitem__", "__iter__")

    def __init__(self):
        self.used = set()
        self.listed = False
        self._class = type(os.environ)
        self._originals = {name: self._class.__dict__[name] for name in self._METHODS}
        for name in self._METHODS[:3]:
            setattr(self._class, name, self._recording(self._originals[name]))
        setattr(self._class, "__iter__", self._listing(self._originals["__iter__"]))

    def _recording(self, original):
        def method(environ, key, *value):
            self.used.add(os.fsencode(key) if isinstance(key, str) else key)
            return original(environ, key, *value)
        return method

    def _listing(self, original):
        def method(environ):
            self.listed = True
            return original(environ)
        return method

    def stop(self):
        for name, original in self._originals.items():
            setattr(self._class, name, original)


class _TerminalWatch:
    """While imports run, descriptors 1 and 2 are files that keep the output. Who asks whether they
    are terminals gets the answer for the streams to come, and is remembered."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = set()
        self.truth = os.isatty
        self._streams = []
        os.isatty = self._isatty
        for number, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
            if stream is not None and "isatty" not in vars(stream):
                stream.isatty = lambda number=number: self._isatty(number)
                self._streams.append(stream)

    def _isatty(self, number):
        # A module may have kept this function: afterwards it tells the truth.
        if self.answers is not None and number in self.answers:
            self.asked.add(number)
            return self.answers[number]
        return self.truth(number)

    def stop(self):
        os.isatty = self.truth
        for stream in self._streams:
            del stream.isatty
        self.answers = None


def _serve(sock, imports_type):
    """The whole conversation; returns when the script may run."""
    environ = os.environ._data  # bytes to bytes; also what posix.environ is

    def say(*texts):
        sock.send(b"\0".join(text if isinstance(text, bytes) else os.fsencode(text)
                             for text in texts))

    def leave(*texts):
        say(*texts)
        os._exit(0)

    def cold(why):
        leave("cold", why)

    def read_recipe():
        data = sock.recv(1 << 18)
        if not data:
            os._exit(0)
        return data.split(b"\0")

    # Nothing of ours may reach what the imports start, or what they read.
    recipe = read_recipe()
    if sys.version_info < (3, 8):
        cold("Python before 3.8")
    if recipe[0] == b"probe":
        leave("hello", str(os.getpid()), "%d.%d" % sys.version_info[:2])
    kind, target, path, out_tty, err_tty = recipe[1:6]
    kind, target = os.fsdecode(kind), os.fsdecode(target)
    if path[:1] == b"=":
        os.environ["PYTHONPATH"] = os.fsdecode(path[1:])
    else:
        os.environ.pop("PYTHONPATH", None)
    if [os.fsencode(text) for text in sys.argv] != (recipe[6:] if kind == "script"
                                                    else [b"-m"] + recipe[7:]):
        cold("the interpreter was started with other arguments: " + " ".join(sys.argv))
    before = dict(environ)
    terminals = _TerminalWatch({1: out_tty == b"1", 2: err_tty == b"1"})
    variables = _EnvironmentWatch()
    imports = None
    try:
        _run_customizations()
        imports = imports_type(kind, target, cold)
        imports.run()
    except Exception as error:
        cold("%s: %s" % (type(error).__name__, error))
    finally:
        variables.stop()
    _check_after_imports(cold)
    imports.check()
    say("ready", str(len(sys.modules)))

    data, ancillary, _, _ = sock.recvmsg(1 << 18, 256)
    texts = data.split(b"\0")
    if texts[0] != b"go":
        os._exit(0)
    descriptors = [int.from_bytes(item[i:i + 4], sys.byteorder)
                   for _, _, item in ancillary for i in range(0, len(item), 4)]
    wanted = _environment_from(texts[1:])

    changed = {name for name in before.keys() | wanted.keys()
               if before.get(name) != wanted.get(name)}
    for name in changed:
        if variables.listed or name in variables.used:
            leave("stale", b"an import has read " + name)
    for number in terminals.asked:
        if terminals.answers[number] != terminals.truth(descriptors[number - 1]):
            leave("stale", "an import has asked whether descriptor %d is a terminal" % number)
    why = imports.stale()
    if why:
        leave("stale", why)

    for name in changed:
        if name in wanted:
            os.putenv(name, wanted[name])
        else:
            os.unsetenv(name)
    # In the order in which a cold start lists them, then what the imports have added.
    now = dict(environ)
    environ.clear()
    for name, value in wanted.items():
        if name in changed:
            environ[name] = value
        elif name in now:
            environ[name] = now[name]
    for name, value in now.items():
        if name not in wanted and name not in before:
            environ[name] = value
    terminals.stop()
    say("prepared")
    if sock.recv(16) != b"run":
        os._exit(0)
    sock.close()
    if len(descriptors) > 2:
        # Not before the answer: the kernel may take tens of milliseconds for a move.
        try:
            os.write(descriptors[2], b"0")
        except OSError:
            pass  # as in a cold start: the group is an additional net
    _take_streams(descriptors)
    logging = sys.modules.get("logging")
    if logging is not None and hasattr(logging, "_startTime"):
        # %(relativeCreated)d counts from the start of the script, not of the standby.
        time = sys.modules["time"]
        logging._startTime = (time.time_ns() if isinstance(logging._startTime, int)
                              else time.time())


def _run_customizations():
    """The user's own, before everything else, as in a cold start. `site` imports them again and
    finds them done."""
    names = ["sitecustomize"]
    if sys.modules["site"].ENABLE_USER_SITE:
        names.append("usercustomize")
    for name in names:
        try:
            __import__(name)
        except ImportError as error:
            if error.name != name:
                raise


def _check_after_imports(cold):
    """What must not have happened while the modules were imported."""
    if len(sys._current_frames()) > 1:
        cold("an import has started a thread")
    torch = sys.modules.get("torch.cuda")
    if torch is not None and torch.is_initialized():
        cold("an import has initialised CUDA")
    kept = {os.readlink("/proc/self/fd/%d" % number): number for number in (1, 2)}
    for number in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink("/proc/self/fd/" + number)
        except OSError:
            continue
        if link in kept and int(number) > 2:
            cold("an import keeps a copy of descriptor %d" % kept[link])
        if link.startswith("/dev/nvidia"):
            cold("an import has opened " + link)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if all(os.fstat(number).st_size for number in (1, 2)):
        cold("imports write to both standard output and standard error")


def _take_streams(descriptors):
    """The real standard streams, with what the imports have written."""
    for number, stream, name in ((1, sys.__stdout__, "<stdout>"), (2, sys.__stderr__, "<stderr>")):
        text = os.pread(number, os.fstat(number).st_size, 0)
        os.dup2(descriptors[number - 1], number)
        raw = getattr(stream, "buffer", None)
        if type(raw).__name__ == "FileIO":
            # Whether it can seek was looked up for a file. The stream stays the object that modules
            # may have kept; the descriptor below it is looked at anew.
            raw = type(raw)(number, "wb", closefd=False)
            raw.name = name
            settings = (stream.encoding, stream.errors, "\n", stream.line_buffering,
                        stream.write_through)
            stream.__init__(raw, *settings)
            stream.mode = "w"
        while text:
            text = text[os.write(number, text):]
    for number in descriptors:
        os.close(number)


def _hold():
    """What is on sys.path of ours goes first: imports must not see it."""
    folder = os.path.dirname(__file__)
    sock = None
    try:
        number = int(os.environ.pop("TRAINYARD_WARM_FD"))
        os.set_inheritable(number, False)
        import _socket
        import trainyard_import_host
        for name in ("_socket", "trainyard_import_host", "trainyard_script_imports",
                     "sitecustomize"):
            del sys.modules[name]
        sys.path.remove(folder)
        sys.path_importer_cache.pop(folder, None)
        sock = _socket.socket(fileno=number)
        _serve(sock, trainyard_import_host.Imports)
    except BaseException as error:  # also Ctrl-C: nothing may fall through to the script
        try:
            sock.send(b"cold\0" + os.fsencode("%s: %s" % (type(error).__name__, error)))
        finally:
            os._exit(1)


if "TRAINYARD_WARM_FD" in os.environ:
    _hold()
if "sitecustomize" not in sys.modules:
    # `site` takes this for "there is none", and the import system forgets us.
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
