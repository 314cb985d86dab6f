"""Towers that see: weights against published counts, tokens of images, their time, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import (
    NO_OVERHEADS,
    DecoderSpec,
    Iteration,
    compiled,
    decoder,
    iteration_cost,
    kv_capacity,
)
from meshwright.simulator.llm.plan.entries import ServedModel

from .test_checkpoint import GEMMA3, LLAMA, config
from .test_public_configs import GEMMA3_4B, GEMMA3_12B

QWEN2 = {
    "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3, "hidden_size": 3584,
    "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "temporal_patch_size": 2,
}  # fmt: skip
QWEN25 = {
    "depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "in_chans": 3,
    "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "temporal_patch_size": 2,
}  # fmt: skip
SIGLIP = {
    "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model",
    "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
}  # fmt: skip
CLIP = {
    "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "model_type": "clip_vision_model",
    "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768, "vocab_size": 32000,
}  # fmt: skip
PIXTRAL = {
    "head_dim": 64, "hidden_act": "silu", "image_size": 1024, "is_composition": True, "model_type": "pixtral",
    "patch_size": 16, "rope_theta": 10000.0,
}  # fmt: skip
NEMO = config("mistral", 40, 5120, 32, 8, 14336, 131072, 131072, head_dim=128, sliding_window=None)
SMALL = config("mistral", 40, 5120, 32, 8, 32768, 131072, 131072, head_dim=128, sliding_window=None)
VICUNA = config("llama", 32, 4096, 32, 32, 11008, 32064, 4096)
QWEN_7B = config("qwen2_vl", 28, 3584, 28, 4, 18944, 152064, 32768, vision_start_token_id=151652)


def many(kind: str, text: dict[str, Any], sight: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model_type": kind, "text_config": text, "vision_config": sight, **more}


# name, fields, billions of weights of the whole model as its page says, an image, its tokens
MODELS = [
    ("Qwen2-VL-7B", QWEN_7B | {"vision_config": QWEN2}, 8.29, (448, 448), 256),
    ("Qwen2.5-VL-7B", QWEN_7B | {"model_type": "qwen2_5_vl", "vision_config": QWEN25}, 8.29, (1080, 1932), 39 * 69),
    ("gemma-3-4b", many("gemma3", GEMMA3_4B, SIGLIP, mm_tokens_per_image=256), 4.30, (300, 900), 256),
    ("gemma-3-12b", many("gemma3", GEMMA3_12B, SIGLIP, mm_tokens_per_image=256), 12.19, (896, 896), 256),
    ("gemma-3-27b", many("gemma3", GEMMA3, SIGLIP, mm_tokens_per_image=256), 27.43, (64, 64), 256),
    ("pixtral-12b", many("llava", NEMO, PIXTRAL, vision_feature_layer=-1), 12.68, (1024, 1024), 64 * 65),
    ("Mistral-Small-3.1", many("mistral3", SMALL, PIXTRAL | {"image_size": 1540, "patch_size": 14},
                               spatial_merge_size=2), 24.01, (1540, 770), 55 * 29),
    ("llava-1.5-7b", many("llava", VICUNA, CLIP, vision_feature_layer=-2, projector_hidden_act="gelu"), 7.06,
     (336, 336), 576),
]  # fmt: skip


@pytest.mark.parametrize(("name", "said", "billions", "image", "tokens"), MODELS, ids=[row[0] for row in MODELS])
def test_weights_and_tokens(
    name: str, said: dict[str, Any], billions: float, image: tuple[int, int], tokens: int
) -> None:
    spec = DecoderSpec.from_config(said, name)
    assert spec.tower is not None
    assert (spec.weights + spec.tower.weights) / 1e9 == pytest.approx(billions, rel=0.005)
    assert spec.tower.image_tokens(image) == tokens


def test_the_published_counts_of_the_towers_alone() -> None:
    """675 million in Qwen2-VL (its paper), 417 million in Gemma 3 (its report), projector aside."""
    qwen, gemma = (DecoderSpec.from_config(MODELS[i][1], "m").tower for i in (0, 2))
    assert qwen is not None
    assert gemma is not None
    assert qwen.weights == pytest.approx(675e6, rel=0.005)
    assert gemma.weights - gemma.projector == pytest.approx(417e6, rel=0.005)


def test_a_plan_keeps_it() -> None:
    spec = DecoderSpec.from_config(MODELS[1][1], "m")
    kept = json.loads(json.dumps(ServedModel.of(spec).model_dump()))
    assert ServedModel(**kept).spec == spec
    kept["shape"]["tower"]["patches"] = 3
    with pytest.raises(InputError, match=r"tower: .*'patches'"):
        _ = ServedModel(**kept).spec


def test_large_images_are_made_smaller() -> None:
    qwen, pixtral = (DecoderSpec.from_config(MODELS[i][1], "m").tower for i in (0, 5))
    assert qwen is not None
    assert pixtral is not None
    assert qwen.image_tokens((14000, 14000)) == pytest.approx(16384, rel=0.01)
    assert pixtral.image_tokens((2048, 1024)) == 64 * 33
    assert qwen.image_tokens((1, 1)) == 1


def test_memory_holds_the_tower_too() -> None:
    said = MODELS[2][1]
    seeing = DecoderSpec.from_config(said, "m")
    blind = DecoderSpec.from_config(said, "m", ignore=("vision_config",))
    assert blind.tower is None
    tower = seeing.tower
    assert tower is not None
    for tp, share in ((1, 1), (4, 4)):  # 16 heads
        more = [kv_capacity(spec, 80 * 2**30, tp=tp).weight_bytes for spec in (seeing, blind)]
        assert more[0] - more[1] == pytest.approx(2 * tower.weights / share, abs=1)


def test_time_comes_with_the_first_chunk_of_a_request() -> None:
    model, gpu = DecoderSpec.from_config(MODELS[0][1], "Qwen2-VL-7B"), device("h100-80gb")
    tower = model.tower
    assert tower is not None
    blind = iteration_cost(model, gpu, overheads=NO_OVERHEADS)
    seeing = iteration_cost(model, gpu, images=((1120, 1120),), overheads=NO_OVERHEADS)
    first, later = Iteration(((1000, 0), (500, 0)), 3, 900, 4), Iteration(((1000, 1000),), 3, 900, 4)
    parts = {p.name: p.seconds for p in seeing.explain(first)}
    assert seeing.seconds(first) - blind.seconds(first) == pytest.approx(parts["tower that sees"])
    assert sum(parts.values()) == pytest.approx(seeing.seconds(first))
    assert seeing.seconds(later) == blind.seconds(later)
    # 6,400 patches through 630 million weights, and all of them see all of them, at the peak; twice as long at most.
    least = (2 * 6400 * 630e6 + 32 * 4 * 6400**2 * 1280) / gpu.peak_flops
    assert 2 * least < parts["tower that sees"] < 4 * least
    new, before = np.array([1000, 500]), np.array([0, 0])
    assert compiled()(seeing.grid(), 3, 900, new, before, 4) == pytest.approx(seeing.seconds(first), rel=1e-12)


def test_windows_make_large_images_cheaper() -> None:
    gpu, step = device("h100-80gb"), Iteration(((1000, 0),), 0, 0, 1)
    plain, windows = (
        iteration_cost(DecoderSpec.from_config(MODELS[i][1], "m"), gpu, images=((3000, 3000),), overheads=NO_OVERHEADS)
        for i in (0, 1)
    )
    parts = [next(p.seconds for p in cost.explain(step) if p.name == "tower that sees") for cost in (plain, windows)]
    assert parts[1] < 0.5 * parts[0]


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (many("mllama", LLAMA, CLIP), "'mllama': layers with cross-attention"),
        (many("llava_next", LLAMA, CLIP), "vision_config"),
        (many("internvl_chat", LLAMA, {"hidden_size": 1024}), "vision_config"),
        (LLAMA | {"model_type": "mllama_text_model"}, "cross-attention"),
        (LLAMA | {"model_type": "mllama"}, "cross-attention"),
        (many("llava", LLAMA, CLIP | {"model_type": "vitmatte"}), "vision_config: model_type: 'vitmatte'"),
        (many("llava", LLAMA, CLIP | {"num_hidden_layers": 0}), "num_hidden_layers: expected an integer >= 1"),
        (many("llava", LLAMA, CLIP | {"patch_size": "14"}), "patch_size: expected an integer >= 1"),
        (many("llava", LLAMA, CLIP | {"deepstack": 3}), "deepstack: not known"),
        (many("llava", LLAMA, CLIP, vision_feature_layer=[1, 2]), "vision_feature_layer"),
        (many("gemma3", LLAMA, SIGLIP, mm_tokens_per_image=250), "mm_tokens_per_image: 250"),
        (many("mistral3", LLAMA, PIXTRAL, spatial_merge_size=0), "spatial_merge_size"),
    ],
)
def test_what_is_wrong_or_not_known_is_one_line(said: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        DecoderSpec.from_config(said, "m")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("images", [(448, 448), ((448,),), ((448, 0),), ((448.0, 448),), "448x448", ((True, 4),)])
def test_wrong_images_are_one_line(images: Any) -> None:
    model = DecoderSpec.from_config(MODELS[0][1], "m")
    with pytest.raises(InputError, match="images: expected pairs") as caught:
        iteration_cost(model, device("h100-80gb"), images=images)
    assert "\n" not in str(caught.value)


def test_a_model_without_a_tower_takes_no_images() -> None:
    with pytest.raises(InputError, match="images: Llama-3.1-8B has no tower"):  # noqa: RUF043
        iteration_cost(decoder("Llama-3.1-8B"), device("h100-80gb"), images=((448, 448),))
