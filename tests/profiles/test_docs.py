"""docs/profiles.md: its file example loads, its tables hold what the code holds."""

from __future__ import annotations

from pathlib import Path

from meshwright import profiles
from meshwright.profiles import ParallelConfig, auto_partition, equal_layers
from meshwright.profiles.alpaserve import shipped as alpaserve_v100

PAGE = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text("utf-8")
C = ParallelConfig


def test_the_table_of_checks_is_up_to_date() -> None:
    models = ("bert-1.3b", "bert-2.6b", "bert-6.7b")
    tables = {m: (alpaserve_v100.layer_table(m), alpaserve_v100.comm_model(m)) for m in models}

    def slowest(pp: int) -> str:
        parts = [auto_partition(tables[m][0], C(1, pp), tables[m][1]).bottleneck_s for m in models]
        return ", ".join(f"{1e3 * x:.1f}" for x in parts) + " ms"

    def saved(m: str) -> str:
        auto = auto_partition(tables[m][0], C(1, 8), tables[m][1]).overhead
        return f"{1 - auto / equal_layers(tables[m][0], C(1, 8), tables[m][1]).overhead:.1%}".replace("%", " %")

    assert slowest(8) in PAGE
    assert slowest(4) in PAGE
    assert f"{saved('bert-1.3b')}, {saved('bert-2.6b')} | 32.9 %, 46.7 %" in PAGE


def test_every_shipped_set_is_described() -> None:
    for name in profiles.shipped():
        assert f"`{name}`" in PAGE
