# SPDX-License-Identifier: Apache-2.0
"""TorchScript of ours in Python: usage: export_parity.py EXPORT_TOOL."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

with tempfile.TemporaryDirectory(prefix="export_parity") as name:
    folder = pathlib.Path(name)
    subprocess.run([sys.argv[1], name], check=True, timeout=60)
    expected = torch.load(folder / "expected.pt", weights_only=True)
    x, mask = expected["x"], torch.arange(4.0)[:, None]
    for kind, tolerance in (("m", 1e-6), ("q", 1e-6)):
        model = torch.jit.load(folder / f"{kind}.ts")
        with torch.no_grad():
            y, total = model(x)
            masked, _ = model(x, mask=mask)
        apart = (y - expected[kind]).abs().max().item()
        print(f"{kind}: {apart:.3g} apart, {(folder / f'{kind}.ts').stat().st_size} bytes,",
              sorted(model.state_dict()))
        assert apart <= tolerance, apart
        assert torch.allclose(total, y.sum(-1)) and torch.allclose(masked, y * mask)
        assert torch.equal(model.scaled(x), x * 2) and torch.equal(model.scaled(x, times=3), x * 6)
    # Python runs the same quantised engine; how far int8 is from float is another matter.
    float_answer, int8_answer = expected["m"], expected["q"]
    error = ((float_answer - int8_answer).norm() / float_answer.norm()).item()
    print(f"int8: {error:.3g} relative")
    assert error < 0.05, error
    names = [n for n, _ in torch.jit.load(folder / "m.ts").named_parameters()]
    assert names == ["inner.first.weight", "inner.first.bias", "inner.second.weight"], names
