"""Shapes by name."""

import pytest
from meshwright.errors import InputError
from meshwright.planners.megatron import GPTS, model_shape
from meshwright.simulator.training import TransformerShape

BILLIONS = {
    "gpt3-350m": 0.35, "gpt3-1.3b": 1.3, "gpt3-2.6b": 2.6, "gpt3-6.7b": 6.7, "gpt3-15b": 15, "gpt3-39b": 39,
    "gpt3-175b": 175, "gpt-22b": 22, "gpt-530b": 530, "gpt-1t": 1008,
}  # fmt: skip


@pytest.mark.parametrize("name", GPTS)
def test_names_say_the_parameters(name):
    assert model_shape(name).params / 1e9 == pytest.approx(BILLIONS[name], rel=0.2 if name == "gpt3-350m" else 0.06)


def test_public_decoders_and_written_shapes():
    assert model_shape("llama-3.1-8b").params == 8_030_261_248
    assert model_shape("llama-3.1-8b").seq == 8192
    assert model_shape("gpt3-39b", seq=1024).seq == 1024
    written = model_shape("layers=4, hidden=64,heads=4,kv_heads=2,vocab=1000,seq=32,gated=TRUE,tied=false")
    assert written == TransformerShape(4, 64, 4, 2, vocab=1000, seq=32, gated=True, tied=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such-model", "unknown model 'no-such-model'.*or a GPT: gpt3-350m.*or layers="),
        ("layers=4,hidden=64,heads=4,vocab=9,seq=8,experts=4", "missing"),
        ("layers=4,hidden=64", "heads, vocab, seq missing"),
        ("layers=4,width=64", "unknown field 'width'"),
        ("layers=4,layers=5", "layers is given twice"),
        ("layers=four", r"model\.layers: expected a positive integer"),
        ("layers=4,hidden=64,heads=4,vocab=9,seq=8,gated=1", r"model\.gated: expected true or false"),
        ("layers=0,hidden=64,heads=4,vocab=9,seq=8", r"model\.layers: expected a positive integer"),
        ("layers=4,hidden=64,heads=5,vocab=9,seq=8", r"model\.heads: expected a divisor"),
        ("=", "unknown field ''"),
    ],
)
def test_bad_models(text, message):
    with pytest.raises(InputError, match=message) as caught:
        model_shape(text)
    assert "\n" not in str(caught.value)
