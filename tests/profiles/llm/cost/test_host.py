"""Host times by version and mode."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import HOSTS, Iteration, decoder, host_times, iteration_cost


@pytest.mark.parametrize(
    ("version", "ahead", "name"),
    [
        ("", None, "asynchronous vLLM"),
        ("0.19.0", None, "asynchronous vLLM"),
        ("0.14.0", False, "synchronous vLLM from 0.8 on"),
        ("vLLM 0.11.2", None, "synchronous vLLM from 0.8 on"),
        ("0.11.2", True, "asynchronous vLLM"),
        ("0.6.6", None, "vLLM 0.6 and 0.7"),
        ("0.5.4", None, "vLLM 0.3 to 0.5"),
        ("0.2.7", None, "vLLM before 0.3"),
    ],
)
def test_versions_find_theirs(version: str, ahead: bool | None, name: str) -> None:
    found = host_times(version, ahead)
    assert found.name == name
    assert found.explain().startswith(f"host times: {name}")
    assert all(host.source for host in HOSTS)


def test_what_a_version_cannot_is_an_error() -> None:
    with pytest.raises(InputError, match=r"vLLM 0\.6\.6 does not schedule asynchronously"):
        host_times("0.6.6", True)


def test_a_step_takes_longer_by_what_the_host_takes() -> None:
    model, gpu, step = decoder("Llama-3.1-8B"), device("h100-80gb"), Iteration((), 64, 64 * 500, 64)
    ahead, behind = (
        iteration_cost(model, gpu, overheads=host_times("0.11", on).overheads(), max_tokens=64).seconds(step)
        for on in (True, False)
    )
    assert behind - ahead == pytest.approx(1.25e-3 - 0.6e-3 + 64 * 32e-6)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_an_eager_engine_of_80_layers_takes_25_to_35_ms_a_step_whatever_its_degree(tp: int) -> None:
    """As recorded runs show: some 25 to 30 ms, all of it launches."""
    cost = iteration_cost(
        decoder("Llama-3.1-70B"), device("h100-80gb"), tp=tp, precision="fp8",
        overheads=host_times("0.19").overheads(eager=True), max_tokens=64,
    )  # fmt: skip
    assert 0.025 < cost.seconds(Iteration((), 1, 500, 1)) < 0.035
    assert "eager" in host_times("0.19").explain(eager=True)
