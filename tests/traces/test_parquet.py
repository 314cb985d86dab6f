"""Parquet: what pyarrow writes is read and checked like CSV; without pyarrow a clear error."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InputError
from meshwright.traces import Trace

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write(path: Path, **columns: object) -> Path:
    parquet.write_table(arrow.table(columns), path)
    return path


def test_foreign_files_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.parquet",
        when=arrow.array([1000, 2000, 3000], arrow.int32()),
        model=arrow.array(["a", "b", "a"]).dictionary_encode(),
        slo=arrow.array([1.0, 2.0, 3.0], arrow.float32()),
        prompt_tokens=arrow.array([5, 6, 7], arrow.int16()),
    )
    trace = traces.read(path, columns={"arrival": "when"})
    assert trace == Trace(
        [1000.0, 2000.0, 3000.0], ["a", "b", "a"], ("a", "b"), [1.0, 2.0, 3.0], prompt_tokens=[5, 6, 7]
    )
    assert traces.read(path, "parquet", columns={"arrival": "when"}, unit="ms").duration == 3.0


def test_models_and_their_order_are_kept(tmp_path: Path) -> None:
    trace = Trace([1.0, 2.0], ["c", "a"], ("a", "b", "c"), 0.5)
    assert traces.read(traces.write(trace, tmp_path / "t.parquet")) == trace


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arrival": [1.0]}, "missing column 'model'; found: arrival; expected: arrival, model"),
        ({"arrival": [1.0, float("nan")], "model": ["a", "b"]}, r"row 1: column 'arrival' must be finite"),
        ({"arrival": [1.0, None], "model": ["a", "b"]}, r"row 1: column 'arrival' is empty"),
        ({"arrival": [-1.0, 2.0], "model": ["a", "b"]}, r"row 0: column 'arrival' must be >= 0"),
        ({"arrival": [3.0, 2.0], "model": ["a", "b"]}, r"row 1: column 'arrival' is earlier .*\n.*sort=True"),
        ({"arrival": [1.0, 2.0], "model": ["a", None]}, r"row 1: column 'model' is empty"),
        ({"arrival": [1.0], "model": ["a"], "output_tokens": [0]}, r"row 0: column 'output_tokens' must be an integer"),
        ({"arrival": [1.0], "model": ["a"], "output_tokens": [1.5]}, r"is no whole Parquet file|must be an integer"),
        ({"arrival": ["x"], "model": ["a"]}, "is no whole Parquet file, or a column is no number"),
        ({"arrival": arrow.array([], arrow.float64()), "model": arrow.array([], arrow.string())}, "no request"),
    ],
)
def test_bad_columns_are_answered_by_row(tmp_path: Path, columns: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        traces.read(write(tmp_path / "t.parquet", **columns))


def test_truncated_file(tmp_path: Path) -> None:
    path = traces.write(traces.poisson(50.0, 20.0, ["a"], seed=1), tmp_path / "t.parquet")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="is no whole Parquet file"):
        traces.read(path)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traces.poisson(50.0, 20.0, ["a"], seed=1)
    path = traces.write(trace, tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (lambda: traces.read(path), lambda: traces.write(trace, tmp_path / "u.parquet")):
        with pytest.raises(InputError, match=r"pip install -e '\.\[parquet\]'"):
            call()
    assert not (tmp_path / "u.parquet").exists()


def test_batches_join_seamlessly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from meshwright.traces.files import parquet as module

    trace = traces.gamma(50.0, 2.0, 30.0, ["b", "a"], slo=[0.1, np.inf], seed=1)
    path = traces.write(trace, tmp_path / "t.parquet")
    monkeypatch.setattr(module, "CHUNK", 11)
    assert traces.read(path) == trace
