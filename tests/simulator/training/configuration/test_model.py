"""Parameters and FLOPs: exact counts against closed forms of the papers."""

from types import SimpleNamespace

import pytest
from meshwright.errors import InputError
from meshwright.simulator.training import TransformerShape
from meshwright.simulator.training.configuration.model import shape_of

GPT3 = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "billions"),
    [  # Narayanan et al. 2021, Table 1
        (24, 2304, 24, 1.7), (30, 3072, 32, 3.6), (36, 4096, 32, 7.5), (40, 6144, 48, 18.4), (48, 8192, 64, 39.1),
        (60, 10240, 80, 76.1), (80, 12288, 96, 145.6), (96, 16384, 128, 310.1), (105, 20480, 128, 529.6),
        (128, 25600, 160, 1008.0),
    ],
)  # fmt: skip
def test_parameters_are_those_of_the_paper(layers, hidden, heads, billions):
    shape = TransformerShape(layers, hidden, heads, vocab=51200, seq=2048)
    # equation 2 of the paper, which counts one more vector of the width per layer (13 h) and no final norm
    formula = 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + (51200 + 2048) / (12 * layers * hidden))
    assert shape.params == pytest.approx(formula + 2 * hidden, rel=1e-12)
    assert shape.params / 1e9 == pytest.approx(billions, abs=0.06)


def test_llama_parameters():
    llama = TransformerShape(32, 4096, 32, 8, 14336, 128256, 8192, gated=True)
    assert llama.params == 8_030_261_248  # Llama-3 8B, as its checkpoint counts
    assert TransformerShape(32, 4096, 32, 32, 11008, 32000, 4096, gated=True).params == 6_738_415_616  # Llama-2 7B


def test_flops_are_those_of_the_paper():
    batch, L, s, h, v = 64, 96, 2048, 12288, 51200
    formula = 72 * batch * L * s * h**2 * (1 + s / (6 * h) + v / (12 * h * L))  # Korthikanti et al., equation 7
    assert GPT3.model_flops(batch) == pytest.approx(formula, rel=1e-12)
    tokens = batch * s
    matrices = L * GPT3.layer_matrix_params + GPT3.embedding_params
    assert GPT3.model_flops(batch) == 6 * matrices * tokens + 12 * L * h * s * tokens


def test_full_recomputation_is_four_thirds_of_the_layers():
    layers, head = GPT3.forward_flops()
    tokens = 8 * GPT3.seq
    assert GPT3.hardware_flops(8, "full") == 4 * layers * tokens + 3 * head * tokens
    assert GPT3.hardware_flops(8, "none") == GPT3.model_flops(8)
    assert GPT3.hardware_flops(8, "selective") - GPT3.model_flops(8) == 96 * 4 * 2048 * 12288 * tokens


def test_models_come_as_objects_and_mappings():
    said = {"layers": 4, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 256, "vocab": 1000, "seq": 32, "gated": True}
    expected = TransformerShape(4, 64, 4, 2, 256, 1000, 32, True)
    assert shape_of(said) == shape_of(SimpleNamespace(**said)) == shape_of(expected) == expected
    assert shape_of({**said, "kv_heads": None}).kv_heads == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, r"model\.layers: expected a positive integer \(got 0\)"),
        ({"hidden": 2.5}, r"model\.hidden"),
        ({"heads": 5}, r"model\.heads: expected a divisor of hidden 64"),
        ({"kv_heads": 3}, r"model\.kv_heads: expected a divisor of heads 4"),
        ({"vocab": None}, r"model\.vocab"),
        ({"width": 3}, "unknown field 'width'"),
    ],
)
def test_bad_models(change, message):
    said = {"layers": 4, "hidden": 64, "heads": 4, "vocab": 1000, "seq": 32, **change}
    with pytest.raises(InputError, match=message):
        shape_of(said)


def test_missing_fields_are_named():
    with pytest.raises(InputError, match="hidden, seq missing"):
        shape_of({"layers": 4, "heads": 4, "vocab": 1000})
