"""The decoder by itself: parameters as counted, attention as torch's, files that need torch alone, refusals."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import meshwright.runtime.training.decoder as room
import pytest
from meshwright.runtime.training.decoder.config import Config, Shape, Way
from meshwright.simulator.training import TransformerShape
from meshwright.simulator.training.configuration.mixture.parts import Experts as Counted

torch = pytest.importorskip("torch")
from meshwright.runtime.training.decoder.context import positions_of  # noqa: E402
from meshwright.runtime.training.decoder.model import Chunk  # noqa: E402

FOLDER = Path(room.__file__).parent


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("experts", [None, Counted(8, 2, 48, shared_ffn=40, dense_layers=1)])
def test_parameters_are_those_that_the_estimate_counts(gated: bool, experts: Counted | None) -> None:
    if experts is not None and not gated:
        pytest.skip("the estimate's experts are gated")
    counted = TransformerShape(3, 64, 4, 2, 96, 128, 32, gated=gated, experts=experts)
    more = {} if experts is None else {"experts": 8, "top_k": 2, "expert_ffn": 48, "shared_ffn": 40, "dense": (0,)}
    shape = Shape(3, 64, 4, 2, 16, 96, 128, 32, gated=gated, tied=not gated, **more)
    with torch.device("meta"):
        chunk = Chunk(shape, range(3))
    assert sum(x.numel() for x in chunk.parameters()) == counted.params


@pytest.mark.parametrize("context", ["ring", "all_to_all"])
def test_every_token_is_one_ranks(context: str) -> None:
    found = [positions_of(rank, 4, 32, context) for rank in range(4)]
    assert sorted(p for each in found for p in each) == list(range(32))
    seen = [sum(p + 1 for p in each) for each in found]  # keys that a rank's queries see
    assert (max(seen) == min(seen)) == (context == "ring")


def test_files_need_torch_and_each_other_alone() -> None:
    known = {*sys.stdlib_module_names, "torch", "safetensors"}
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1, f"{file.name}: reaches out of its room"
                names = [] if node.level else [node.module or ""]
            assert {name.split(".")[0] for name in names} <= known, file.name


SHAPE = Shape(4, 32, 4, 2, 8, 64, 64, 16, gated=True, tied=False)
EXPERTS = Shape(4, 32, 4, 2, 8, 64, 64, 16, gated=True, tied=False, experts=4, top_k=2, expert_ffn=32)


@pytest.mark.parametrize(
    ("shape", "way", "said"),
    [
        (SHAPE, {"tp": 4}, "tp: 4 does not divide kv_heads 2"),
        (SHAPE, {"cp": 16}, "the tokens' pieces: 32 does not divide seq 16"),
        (SHAPE, {"cp": 4, "context": "all_to_all"}, "cp: 4 does not divide kv_heads 2 / tp"),
        (SHAPE, {"dp": 2, "ep": 2}, "ep: 2 ranks share experts, and the model has none"),
        (SHAPE, {"dp": 3, "global_batch": 8}, "global_batch: expected a multiple of dp x microbatch = 3"),
        (SHAPE, {"pp": 8}, "pp x interleave: 8 chunks of 4 layers"),
        (SHAPE, {"pp": 2, "interleave": 2}, "interleave: 1f1b has 1 chunks a rank"),
        (SHAPE, {"pp": 2, "layers": (1, 2)}, "layers: expected 4 in all (got 3)"),
        (SHAPE, {"dp": 2, "shard": 4}, "shard: expected a divisor of dp x cp = 2"),
        (SHAPE, {"pp": 2, "dp": 2, "shard": 2, "interleave": 2, "schedule": "zb_v"}, "does not go with fully_shard"),
        (EXPERTS, {"dp": 3, "ep": 3, "global_batch": 3}, "ep: 3 does not divide experts 4"),
        (EXPERTS, {"tp": 2}, "goes with sequence_parallel"),
    ],
)
def test_what_does_not_divide_is_refused(shape: Shape, way: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=r"^\w") as caught:
        Config(shape, Way(**{"global_batch": 8, **way}))  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_configuration_is_read_as_it_is_written(tmp_path: Path) -> None:
    config = Config(EXPERTS, Way(dp=2, ep=2, shard=2, global_batch=4, layers=(4,)))
    path = tmp_path / "config.json"
    path.write_text(config.to_json(), encoding="utf-8")
    assert Config.load(path) == config
    path.write_text(config.to_json().replace('"tp"', '"tq"'), encoding="utf-8")
    with pytest.raises(ValueError, match="way: unknown field 'tq'"):
        Config.load(path)
