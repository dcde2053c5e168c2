# SPDX-License-Identifier: Apache-2.0
"""Files of tensors between Python and files_tool: usage: files_parity.py FILES_TOOL.

Every file Python writes is read and written again by files_tool; what Python then reads must be
equal. Hostile files must be refused, and nothing in them may run."""
import collections
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import zipfile

try:
    import safetensors.torch
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

tool = sys.argv[1]
folder = pathlib.Path(tempfile.mkdtemp(prefix="files_parity"))
failures = []


def call(*arguments):
    return subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def same(a, b, where=""):
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor), f"{where}: {type(b)}"
        assert a.dtype == b.dtype and a.shape == b.shape, f"{where}: {a.dtype} {a.shape} {b.dtype} {b.shape}"
        assert a.stride() == b.stride() or a.numel() == 0, f"{where}: strides {a.stride()} {b.stride()}"
        as_bytes = lambda t: t.detach().contiguous().flatten().view(torch.uint8) if t.numel() else t
        assert torch.equal(as_bytes(a.detach()), as_bytes(b)), f"{where}: other values"
    elif isinstance(a, dict):
        assert isinstance(b, dict), f"{where}: {type(b)}"
        assert [str(k) for k in a] == list(b), f"{where}: {list(a)} {list(b)}"
        for key in a:
            same(a[key], b[str(key)], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{i}]")
    else:
        assert type(a) is type(b) and (a == b or a != a), f"{where}: {a!r} {b!r}"


def check(name, body):
    try:
        body()
        print(f"ok {name}")
    except AssertionError as error:
        failures.append(name)
        print(f"FAILED {name}: {error}")


def round_trip(name, value, **options):
    def body():
        before, after = folder / "before.pt", folder / "after.pt"
        torch.save(value, before, **options)
        done = call("torch", before, after)
        assert done.returncode == 0, done.stderr
        for mapped in (False, True):
            same(value, torch.load(after, weights_only=True, mmap=mapped))
    check(name, body)


def trained():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    made = {"adamw": torch.optim.AdamW(model.parameters(), lr=0.1, amsgrad=True),
            "sgd": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)}
    for optimizer in made.values():
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(5, 3)).square().sum().backward()
            optimizer.step()
    return model, made


base = torch.arange(24.0)
values = {
    "of a module": trained()[0].state_dict(),
    "of AdamW": trained()[1]["adamw"].state_dict(),
    "of SGD": trained()[1]["sgd"].state_dict(),
    "with parameters": dict(trained()[0].named_parameters()),
    "in the manner of Hugging Face": collections.OrderedDict(
        [("bert.embeddings.LayerNorm.weight", torch.ones(4)), ("cls.bias", torch.zeros(2))]),
    "of every type": {str(t): torch.arange(-3, 9).to(t) for t in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
        torch.int16, torch.int8, torch.uint8, torch.bool)},
    "of views": {"whole": base, "part": base[4:10], "turned": base.view(4, 6).t(),
                 "every_third": base[1::3], "repeated": base[:1].expand(5)},
    "of empty and scalar tensors": {"none": torch.empty(0), "shaped": torch.empty(0, 3, 2),
                                    "scalar": torch.tensor(2.5), "integer": torch.tensor(7)},
    "of scalars and containers": {
        "n": None, "t": True, "f": False, "i": -3, "large": 2**40, "small": -(2**63), "x": 0.1,
        "inf": float("inf"), "nan": float("nan"), "s": "Größe 中文 \U0001f600", "list": [1, [2, ()]],
        "deep": {"a": {"b": {1: [torch.ones(1)]}}}, "shape": torch.Size([2, 3]), "empty": {}},
    "of 3000 entries": {f"layer.{i}": torch.full((2,), float(i)) for i in range(3000)},
}
for form, options in {"": {}, ", protocol 4": {"pickle_protocol": 4}, ", protocol 5": {"pickle_protocol": 5},
                      ", before 1.6": {"_use_new_zipfile_serialization": False}}.items():
    for name, value in values.items():
        round_trip(name + form, value, **options)


def shared():
    a = torch.arange(6.0)
    torch.save({"a": a, "b": a[2:]}, folder / "before.pt")
    assert call("torch", folder / "before.pt", folder / "after.pt").returncode == 0
    read = torch.load(folder / "after.pt")
    read["a"][3] = 99
    assert read["b"][1] == 99, "views became copies"


def safetensors_both_ways():
    tensors = {k: v.contiguous() for k, v in values["of every type"].items()}
    tensors |= {"odd": torch.arange(3, dtype=torch.int8), "empty": torch.empty(0, 2), "scalar": torch.tensor(1.5)}
    safetensors.torch.save_file(tensors, folder / "a.safetensors", metadata={"format": "pt", "epoch": "3"})
    done = call("safetensors", folder / "a.safetensors", folder / "b.safetensors")
    assert done.returncode == 0, done.stderr
    read = safetensors.torch.load_file(folder / "b.safetensors")
    same(dict(sorted(tensors.items())), dict(sorted(read.items())))
    with safetensors.safe_open(folder / "b.safetensors", "pt") as opened:
        assert opened.metadata() == {"format": "pt", "epoch": "3"}


def weights():
    state = trained()[0].state_dict()
    wrapped = {"module." + k: v for k, v in state.items()}
    for content in (state, {"model": state, "epoch": 3}, {"state_dict": wrapped}, {"module": state}):
        torch.save(content, folder / "w.pth")
        done = call("weights", folder / "w.pth", folder / "w.safetensors")
        assert done.returncode == 0, done.stderr
        read = safetensors.torch.load_file(folder / "w.safetensors")
        same(dict(sorted(state.items())), dict(sorted(read.items())))


class Hostile:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def hostile():
    proof = folder / "executed"
    for form in (True, False):
        for protocol in (2, 4):
            content = {"a": torch.ones(2), "b": Hostile(os.system, f"touch {proof}")}
            torch.save(content, folder / "h.pt", _use_new_zipfile_serialization=form, pickle_protocol=protocol)
            done = call("torch", folder / "h.pt", folder / "h2.pt")
            assert done.returncode == 1 and '"posix.system"' in done.stderr, done.stderr
            assert not (folder / "h2.pt").exists()
    assert not proof.exists(), "a pickle was executed"


def refused(name, write, *words):
    def body():
        file = folder / "refused.pt"
        write(file)
        done = call("torch", file, folder / "never.pt")
        assert done.returncode == 1, f"{done.returncode} {done.stderr}"
        assert all(word in done.stderr for word in (str(file), *words)), done.stderr
    check(f"refuses {name}", body)


def damaged(file):
    torch.save({"a": torch.full((100,), 3.0)}, file)
    content = bytearray(file.read_bytes())
    at = content.find(torch.full((4,), 3.0).numpy().tobytes())
    content[at + 17] ^= 1
    file.write_bytes(content)


def cut(file):
    torch.save({"a": torch.ones(1000)}, file)
    file.write_bytes(file.read_bytes()[:-100])


def cut_old(file):
    torch.save({"a": torch.ones(1000)}, file, _use_new_zipfile_serialization=False)
    file.write_bytes(file.read_bytes()[:-100])


def big_endian(file):
    source = folder / "little.pt"
    torch.save({"a": torch.ones(2)}, source)
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(file, "w") as write:
        for name in read.namelist():
            write.writestr(name, b"big" if name.endswith("byteorder") else read.read(name))


check("shared storages stay shared", shared)
check("safetensors both ways", safetensors_both_ways)
check("weights from every wrapping", weights)
check("refuses os.system", hostile)
refused("a damaged record", damaged, "checksum", "data/0")
refused("a file that is cut off", cut, "cut off")
refused("an old file that is cut off", cut_old, "cut off")
refused("the other byte order", big_endian, "byte order")
refused("a whole module", lambda f: torch.save(torch.nn.Linear(2, 2), f), "torch.nn.modules.linear.Linear")
refused("TorchScript", lambda f: torch.jit.script(torch.nn.Linear(2, 2)).save(str(f)), "TorchScript")
refused("another pickle", lambda f: f.write_bytes(pickle.dumps({"a": 1})), "not of torch.save")
refused("an integer beyond 64 bits", lambda f: torch.save({"a": 2**70}, f), "64 bits")
refused("a set", lambda f: torch.save({"a": {1}}, f), ".set\"")
refused("an empty file", lambda f: f.write_bytes(b""), "empty")

for file in folder.iterdir():
    file.unlink()
folder.rmdir()
print(f"{len(failures)} failed")
sys.exit(bool(failures))
