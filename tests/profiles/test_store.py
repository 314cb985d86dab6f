"""Profiles on disk: round trips, every error at once, doubtful figures, speed of import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from meshwright import profiles
from meshwright.errors import InputError, OutOfProfileError
from meshwright.profiles import (
    Layer,
    LayerTable,
    ModelProfile,
    ParallelConfig,
    ProfileSet,
    ProfileWarning,
    Provenance,
    StageProfile,
)


def small() -> ProfileSet:
    stages = {
        ParallelConfig(1, 1): StageProfile({1: (0.4,), 2: (0.7,)}, (8.0,), {1: 1e6}, source="measured"),
        ParallelConfig(2, 2): StageProfile({1: (0.1, 0.3)}, (2.0, 2.5), hop_s=0.001, partition=(0, 3)),
    }
    source = Provenance("a stopwatch", "cpu-core", "2026-01-02", {"torch": "2.13.0"}, "careful")
    model = ModelProfile("a", stages, source)
    return ProfileSet("mine", "cpu-core", {"a": model}, source, 0.002, {"alias": "a"})


def document(tmp_path: Path) -> dict:
    return json.loads(profiles.save(small(), tmp_path / "p.json").read_text())


def load_error(tmp_path: Path, content: object) -> str:
    path = tmp_path / "bad.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError) as caught:
        profiles.load(path)
    return str(caught.value)


def test_round_trip_keeps_everything(tmp_path: Path) -> None:
    path = profiles.save(small(), tmp_path / "deep" / "p.json")
    back = profiles.load(path)
    assert back == small()
    assert back.digest() == small().digest()
    assert profiles.load(str(path), device="cpu-core") == back


def test_digest_follows_the_figures() -> None:
    changed = small()["a"].scaled(1.0 + 1e-12)
    other = ProfileSet("mine", "cpu-core", {"a": changed}, small().provenance, 0.002, {"alias": "a"})
    assert other.digest() != small().digest()


def test_all_errors_of_a_file_at_once(tmp_path: Path) -> None:
    bad = document(tmp_path)
    bad["overhead_s"] = -1
    configs = bad["models"]["a"]["configs"]
    configs["op1pp1"]["latency_s"]["1"] = [-0.4]
    configs["op1pp1"]["latency_s"]["zero"] = [1]
    configs["op2pp2"]["latency_s"]["1"] = [0.1]
    configs["op2pp2"]["wieght_bytes"] = configs["op2pp2"].pop("weight_bytes")
    configs["op3"] = configs["op1pp1"]
    del bad["provenance"]
    lines = load_error(tmp_path, bad).splitlines()
    assert all(line.startswith(f"{tmp_path / 'bad.json'}: ") for line in lines)
    text = "\n".join(lines)
    for part in (
        "overhead_s: must be finite and >= 0 (got -1)",
        "top level: missing field 'provenance'",
        "models.a.configs.op1pp1.latency_s.1[0]: must be positive and finite (got -0.4)",
        "models.a.configs.op1pp1.latency_s: keys must be positive integers (got 'zero')",
        "models.a.configs.op2pp2.latency_s.1: expected 2 values, one per stage (got 1)",
        "models.a.configs.op2pp2: missing field 'weight_bytes'",
        "models.a.configs.op2pp2: unknown field (got 'wieght_bytes'); did you mean 'weight_bytes'?",
        "models.a.configs: unknown parallel configuration (got 'op3'); write it like 'op2pp4'",
    ):
        assert part in text


@pytest.mark.parametrize("cell", ["NaN", "Infinity", "-0.5", "0", "null", '"0.4"', "true"])
def test_a_latency_must_be_a_positive_number(tmp_path: Path, cell: str) -> None:
    document(tmp_path)
    text = (tmp_path / "p.json").read_text().replace("[0.4]", f"[{cell}]")
    assert "models.a.configs.op1pp1.latency_s.1[0]: must be positive and finite" in load_error(tmp_path, text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version: expected schema version 1 (got 2); update meshwright"),
        ({"version": 0}, "version: expected schema version 1 (got 0); save it again"),
        ({"format": "else"}, "format: expected 'meshwright-profiles' (got 'else')"),
        ({"name": ""}, "name: expected a non-empty string"),
        ({"models": []}, "models: expected an object (got [])"),
        ({"aliases": {"x": "b"}}, "aliases.x: names no model of this file (got 'b')"),
        ({"modles": {}}, "unknown field (got 'modles'); did you mean 'models'?"),
        ({"provenance": {}}, "provenance: missing field 'source'"),
    ],
)
def test_wrong_top_level(tmp_path: Path, change: dict, message: str) -> None:
    assert message in load_error(tmp_path, {**document(tmp_path), **change})


def test_files_that_are_no_profiles(tmp_path: Path) -> None:
    document(tmp_path)
    whole = (tmp_path / "p.json").read_text()
    assert "not valid JSON" in load_error(tmp_path, whole[: len(whole) // 2])
    assert "is the file whole?" in load_error(tmp_path, "")
    assert "top level: expected an object (got [1])" in load_error(tmp_path, [1])
    assert "key 'a' is given twice" in load_error(tmp_path, '{"a": 1, "a": 2}')
    (tmp_path / "bad.json").write_bytes(b"\x80\x04\x95 a pickle")
    with pytest.raises(InputError, match="byte 0: not UTF-8 text"):
        profiles.load(tmp_path / "bad.json")


def test_partition_must_rise(tmp_path: Path) -> None:
    bad = document(tmp_path)
    bad["models"]["a"]["configs"]["op2pp2"]["partition"] = [0, 0]
    assert "op2pp2.partition: expected 2 rising integers from 0 (got [0, 0])" in load_error(tmp_path, bad)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'alpaserve-v100'"):
        profiles.load("alpaserve-v10")
    with pytest.raises(InputError, match="no shipped set and no file of that name"):
        profiles.load("/nowhere/at/all.json")


def test_another_device_is_refused() -> None:
    with pytest.raises(InputError, match=r"holds for 'v100-16gb' \(got 'a100-40gb' asked for"):
        profiles.load("alpaserve-v100", device="a100-40gb")


def test_latency_that_falls_with_batch_is_doubted(tmp_path: Path) -> None:
    bad = document(tmp_path)
    bad["models"]["a"]["configs"]["op1pp1"]["latency_s"]["2"] = [0.39]
    path = tmp_path / "p.json"
    path.write_text(json.dumps(bad))
    assert profiles.doubts(profiles.load(path)) == []  # 2.5 % is noise
    bad["models"]["a"]["configs"]["op1pp1"]["latency_s"]["2"] = [0.3]
    path.write_text(json.dumps(bad))
    with pytest.warns(ProfileWarning, match=r"models\.a\.configs\.op1pp1: stage 0 falls from 0\.4 s at batch 1"):
        loaded = profiles.load(path)
    assert len(profiles.doubts(loaded)) == 1


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_layer_tables_round_trip(tmp_path: Path, suffix: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    table = LayerTable(
        "m",
        (
            Layer("embedding", {1: {1: 0.1, 2: 0.2}, 2: {1: 0.06, 2: 0.1}}, {1: 4.0, 2: 2.0}, 100.0),
            Layer("block", {1: {1: 0.1, 2: 0.2}, 2: {1: 0.06, 2: 0.1}}, {1: 4.0, 2: 2.0}, 9.0, 8.0, 2, 7.0, 0),
        ),
        Provenance("a stopwatch"),
    )
    path = profiles.save_layers(table, tmp_path / f"layers.{suffix}")
    assert profiles.load_layers(path) == table


def test_bad_layer_tables_are_told(tmp_path: Path) -> None:
    table = LayerTable("m", (Layer("a", {1: {1: 0.1}}, {1: 4.0}),))
    path = profiles.save_layers(table, tmp_path / "layers.json")
    bad = json.loads(path.read_text())
    bad["layers"][0]["latency_s"]["1"]["1"] = -1
    bad["layers"].append({"name": "b"})
    path.write_text(json.dumps(bad))
    with pytest.raises(InputError) as caught:
        profiles.load_layers(path)
    text = str(caught.value)
    assert "layers[0].latency_s.1.1: must be positive and finite (got -1)" in text
    assert "layers[1]: missing field 'latency_s'" in text
    with pytest.raises(InputError, match="no such file"):
        profiles.load_layers(tmp_path / "none.json")
    with pytest.raises(InputError, match="expected 'meshwright-layers'"):
        profiles.load_layers(profiles.save(small(), tmp_path / "p.json"))


def test_unreadable_parquet_is_told(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "l.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        profiles.load_layers(tmp_path / "l.parquet")


def test_aliases_answer_but_are_not_listed() -> None:
    held = small()
    assert held["alias"] is held["a"]
    assert "alias" in held
    assert list(held) == ["a"]
    assert list(held.instances({"alias": 2})) == ["alias-0", "alias-1"]
    assert held.get("b") is None
    with pytest.raises(OutOfProfileError, match="unknown model 'aa'; did you mean 'a'"):
        held["aa"]
    with pytest.raises(KeyError):
        held["b"]
    with pytest.raises(InputError, match="alias of a model that it does not hold"):
        ProfileSet("x", "", {}, Provenance("s"), aliases={"x": "y"})


def test_loading_a_shipped_set_imports_nothing_heavy() -> None:
    code = (
        "import sys; from meshwright import profiles; profiles.load('alpaserve-v100');"
        "print([m for m in ('pandas', 'pyarrow', 'scipy', 'torch', 'numba', 'pydantic') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
