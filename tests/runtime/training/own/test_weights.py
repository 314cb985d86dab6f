"""Files of weights: what is written is read again, by us and by the safetensors package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from meshwright.errors import InputError  # noqa: E402
from meshwright.runtime.training.own.weights import load_weights, save_weights  # noqa: E402

STATE = {
    "a.weight": torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T,
    "a.half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "steps": torch.tensor(7),
    "mask": torch.tensor([[True, False]]),
    "none": torch.empty(0, 4),
    "part": torch.arange(10, dtype=torch.float32)[3:6],
}


def same(found: Any) -> None:
    assert list(found) == list(STATE)
    for key, x in STATE.items():
        assert found[key].dtype == x.dtype
        assert found[key].shape == x.shape
        assert torch.equal(found[key], x)


@pytest.mark.parametrize("ending", [".safetensors", ".pt"])
def test_what_is_written_is_read(tmp_path: Path, ending: str) -> None:
    path = save_weights(tmp_path / f"w{ending}", STATE)
    same(load_weights(path))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_format_is_that_of_the_package(tmp_path: Path) -> None:
    theirs = pytest.importorskip("safetensors.torch")
    found = theirs.load_file(save_weights(tmp_path / "w.safetensors", STATE))
    same({key: found[key] for key in STATE})
    theirs.save_file({key: x.contiguous() for key, x in STATE.items()}, tmp_path / "theirs.safetensors")
    same({key: load_weights(tmp_path / "theirs.safetensors")[key] for key in STATE})


def test_what_is_no_state_dict_is_refused(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"a": 1}, tmp_path / "number.pt")
    (tmp_path / "cut.safetensors").write_bytes(save_weights(tmp_path / "w.safetensors", STATE).read_bytes()[:-9])
    (tmp_path / "text.safetensors").write_text("hello, I am no weights")
    for name, said in {
        "list.pt": "got a list", "number.pt": "'a' is no tensor", "cut.safetensors": "ends beyond the file",
        "text.safetensors": "no state dict", "none.pt": "no such file", "w.npz": "expected a file that ends in",
    }.items():  # fmt: skip
        with pytest.raises(InputError) as error:
            load_weights(tmp_path / name)
        assert said in str(error.value)
        assert "\n" not in str(error.value)
