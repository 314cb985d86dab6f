"""Kernel tables: both formats read as they are, points between and beyond, and every wrong input said once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import Grid, KernelTables
from sample_data import SYSTEMS, measured

BANDWIDTH = 3e12
Writer = Callable[..., Path]
Rows = Callable[..., pd.DataFrame]


def test_a_grid_is_exact_at_its_points_affine_between_and_a_roofline_beyond() -> None:
    x, y = (a.ravel() for a in np.meshgrid([1.0, 2.0, 8.0], [10.0, 20.0], indexing="ij"))
    grid = Grid.build(("x", "y"), (x, y), 3 + x * y, lambda a, b: a * b)
    seconds, kind = grid.at([1, 2, 5, 16, 0.5], [10, 15, 20, 20, 10])
    assert seconds[:3] == pytest.approx([13, 33, 103])
    assert seconds[3] == pytest.approx(163 * 2)  # the edge's efficiency: twice the work, twice its time
    assert seconds[4] == pytest.approx(13)  # below the grid all is launch
    assert kind.tolist() == [0, 1, 1, 2, 2]


def test_a_hole_is_filled_by_the_roofline_and_says_so() -> None:
    grid = Grid.build(("x", "y"), ([1, 2, 1], [10, 10, 20]), [10.0, 20.0, 30.0], lambda a, b: a * b)
    seconds, kind = grid.at(2.0, 20.0)
    assert float(seconds) in (40.0, 60.0)  # either neighbour's efficiency
    assert int(kind) == 2


def test_repeats_become_their_median_and_log_reads_power_laws_exactly() -> None:
    grid = Grid.build(("x",), ([1, 1, 4],), [1.0, 3.0, 32.0], lambda x: x, log=True)
    assert float(grid.at(2.0)[0]) == pytest.approx(8.0)
    assert np.abs(Grid.build(("x",), (np.arange(1, 8),), np.arange(1, 8.0), lambda x: x).held_out(0)).max() < 1e-12


def test_a_system_is_read_with_its_units(tmp_path: Path, write_tables: Writer) -> None:
    tables = KernelTables.load(write_tables(tmp_path))
    assert tables.operators is not None
    assert float(tables.operators.gemm["bfloat16"].at(16, 2048, 2048)[0]) == pytest.approx(
        3e-6 + 2 * (2048 * 2048 + 16 * 2048 + 16 * 2048) / BANDWIDTH / 0.8
    )
    decode = tables.operators.decode["bfloat16", 8, 128]
    assert decode.axes[2].tolist() == [2, 128, 1024, 8192]  # context = isl + step
    launch, each = tables.operators.quantise["fp8"]
    assert launch == pytest.approx(7e-6, rel=0.02)
    assert each == pytest.approx(1e-11, rel=0.2)  # the narrow product itself reads a little less in fp8
    reduce = tables.operators.all_reduce["graph", 2]
    assert reduce.axes[0].tolist() == [256, 131072, 134217728]  # bytes: elements of two


def test_layers_are_read_and_only_the_complete_lattice_is_kept(tmp_path: Path, write_layer_tables: Writer) -> None:
    tables = KernelTables.load(write_layer_tables(tmp_path))
    assert tables.layers is not None
    assert tables.layers.tp == 1
    mixed = tables.layers.mixed
    assert [a.tolist() for a in mixed.axes] == [[16, 64, 512], [0, 16, 1024], [0, 1, 8, 32], [16, 128, 2048]]
    assert mixed.measured.all()
    assert float(mixed.at(64, 16, 8, 128)[0]) == pytest.approx(1e-6 * (5 + 6.4 + 1.024 + 10.24))
    assert float(mixed.at(64, 16, 0, 128)[0]) == pytest.approx(1e-6 * (5 + 6.4 + 1.024))


def test_the_degree_comes_from_the_run_beside_or_the_caller(tmp_path: Path, write_layer_tables: Writer) -> None:
    kernels = write_layer_tables(tmp_path)
    (tmp_path / "meta.json").write_text(json.dumps({"engine_kwargs": {"tensor_parallel_size": 2}}))
    assert KernelTables.load(kernels).layers.tp == 2  # type: ignore[union-attr]
    assert KernelTables.load(kernels, tp=4).layers.tp == 4  # type: ignore[union-attr]


def _spoil(path: Path, column: str, value: float | None) -> None:
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    if value is None:
        frame = frame.drop(columns=column)
    else:
        frame.loc[3, column] = value
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("latency", float("nan"), "row 4: latency: expected a number > 0 (got nan)"),
        ("latency", -1.0, "got -1.0"),
        ("latency", None, "columns missing: latency"),
        ("m", 0, "row 4: m"),
    ],
)
def test_one_clear_error_per_wrong_gemm_table(
    tmp_path: Path, write_tables: Writer, column: str, value: float | None, said: str
) -> None:
    system = write_tables(tmp_path)
    _spoil(system / "gemm.parquet", column, value)
    with pytest.raises(InputError, match=r"gemm\.parquet") as caught:
        KernelTables.load(system)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_another_unit_is_noticed(tmp_path: Path, write_tables: Writer, gemm_rows: Rows, scale: float) -> None:
    system = write_tables(tmp_path)
    gemm_rows(scale).to_parquet(system / "gemm.parquet")
    with pytest.raises(InputError, match="another unit"):
        KernelTables.load(system)


def test_contradicting_repeats_are_refused(tmp_path: Path, write_tables: Writer, gemm_rows: Rows) -> None:
    system = write_tables(tmp_path)
    frame = gemm_rows()
    again = frame.iloc[[5]].assign(latency=20 * frame["latency"].iloc[5])
    pd.concat([frame, again]).to_parquet(system / "gemm.parquet")
    with pytest.raises(InputError, match="measured twice"):
        KernelTables.load(system)


def test_neighbouring_formats_are_read(tmp_path: Path, write_tables: Writer, gemm_rows: Rows) -> None:
    """What other systems' tables have: sliding windows, other precisions of GEMMs, all-reduces without a backend."""
    system = write_tables(tmp_path)
    before = KernelTables.load(system).operators
    attention = pd.read_parquet(system / "generation_attention.parquet").assign(window_size=0)
    windows = attention.assign(window_size=128, latency=attention["latency"] / 10)
    pd.concat([attention, windows]).to_parquet(system / "generation_attention.parquet")
    gemm = gemm_rows()
    four = gemm[gemm["gemm_dtype"] == "fp8"].assign(gemm_dtype="nvfp4")
    pd.concat([gemm, four.assign(latency=four["latency"] * 0.7)]).to_parquet(system / "gemm.parquet")
    reduce = pd.read_parquet(system / "custom_allreduce.parquet")
    graph = reduce[reduce["backend"] == "vllm_graph"].drop(columns="backend")
    graph.to_parquet(system / "custom_allreduce.parquet")
    after = KernelTables.load(system).operators
    assert before is not None
    assert after is not None
    assert set(after.gemm) == {"bfloat16", "fp8", "nvfp4"}
    assert set(after.all_reduce) == {("graph", 2), ("graph", 4)}
    for key, grid in before.decode.items():
        assert (grid.seconds == after.decode[key].seconds).all()


def test_missing_files_and_fields_are_named(tmp_path: Path, write_tables: Writer) -> None:
    with pytest.raises(InputError, match="there is none"):
        KernelTables.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no kernel tables there"):
        KernelTables.load(tmp_path)
    system = write_tables(tmp_path)
    datasheet = (tmp_path / "toy.yaml").read_text()
    (tmp_path / "toy.yaml").write_text("gpu: {mem_bw: 1.0}\n")
    with pytest.raises(InputError, match=r"gpu.bfloat16_tc_flops, node.intra_node_bw, node.inter_node_bw"):
        KernelTables.load(system)
    (tmp_path / "toy.yaml").unlink()
    with pytest.raises(InputError, match=r"toy.yaml .* is missing"):
        KernelTables.load(system)
    (tmp_path / "toy.yaml").write_text(datasheet)
    (system / "context_attention.parquet").unlink()
    with pytest.raises(InputError, match=r"context_attention.parquet: cannot be read"):
        KernelTables.load(system)


@pytest.mark.parametrize(
    ("file", "column", "value", "said"),
    [
        ("dense.csv", "time_us", float("nan"), "time_us: expected a number > 0"),
        ("attention.csv", "kv_decode", None, "columns missing: kv_decode"),
        ("per_sequence.csv", "sequences", -2.0, "sequences"),
    ],
)
def test_one_clear_error_per_wrong_layer_table(
    tmp_path: Path, write_layer_tables: Writer, file: str, column: str, value: float | None, said: str
) -> None:
    kernels = write_layer_tables(tmp_path)
    _spoil(kernels / file, column, value)
    with pytest.raises(InputError, match=file) as caught:
        KernelTables.load(kernels)
    assert said in str(caught.value)


def test_layers_missing_and_wrong_tables_of_experts_are_said(tmp_path: Path, write_layer_tables: Writer) -> None:
    kernels = write_layer_tables(tmp_path)
    (kernels / "moe.csv").write_text("layer,tokens\n")
    with pytest.raises(InputError, match="columns missing: activated_experts, time_us"):
        KernelTables.load(kernels)
    (kernels / "moe.csv").unlink()
    frame = pd.read_csv(kernels / "dense.csv")
    frame[frame["layer"] != "o_proj"].to_csv(kernels / "dense.csv", index=False)
    with pytest.raises(InputError, match="layers missing: o_proj"):
        KernelTables.load(kernels)


@pytest.mark.parametrize("folder", SYSTEMS)
def test_public_systems_are_read_and_messages_are_elements(folder: Path) -> None:
    tables = KernelTables.load(folder)
    assert tables.operators is not None
    for devices in (2, 4, 8):
        for way in ("graph", "nccl"):
            grid = tables.operators.all_reduce[way, devices]
            bus = 2 * (devices - 1) / devices * grid.axes[0][-1] / grid.seconds[-1]
            # Twice of it would be above the links' rate, half of it below what any ring reaches on them.
            assert 0.5 < bus / tables.peaks.link_bytes_per_s < 1.1
    assert all(np.isfinite(g.seconds).all() and (g.seconds > 0).all() for g in tables.operators.decode.values())


@measured
def test_straight_lines_err_less_than_logarithms_on_held_out_points(data: Path) -> None:
    from dataclasses import replace

    tables = KernelTables.load(data / "kernels" / "h100_sxm")
    assert tables.operators is not None
    for grid, axis in ((tables.operators.gemm["fp8"], 0), (tables.operators.decode["bfloat16", 8, 128], 1)):
        affine, log = grid.held_out(axis), replace(grid, log=True).held_out(axis)
        assert np.median(np.abs(affine)) <= np.median(np.abs(log)) < 0.1


@measured
def test_a_public_run_is_read(data: Path) -> None:
    tables = KernelTables.load(data / "vllm_runs" / "rtxpro6000_llama-3.1-8b" / "kernels")
    assert tables.layers is not None
    assert (tables.layers.tp, tables.layers.mixed.seconds.ndim) == (1, 4)
    assert min(tables.layers.mixed.seconds.shape) >= 5
    assert tables.layers.mixed.measured.mean() > 0.99  # all were timed; what is out of line is not believed
