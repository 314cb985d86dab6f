"""Bandwidths of disk, memory and loopback: tiny sizes, what is said of them, bad input."""

import json

import pytest
from meshwright.errors import InputError
from meshwright.profiles.measure import bandwidths
from meshwright.profiles.measure.bandwidths import measure_bandwidths
from meshwright.worlds.serving.conditions.failing import LoadingCase

TINY = 1 << 20


def test_all_three_are_measured_and_said(tmp_path):
    told = []
    found = measure_bandwidths(tmp_path, TINY, 3, told.append)
    assert told == ["disk", "host memory", "network"]
    assert all(len(each) == 3 and min(each) > 0 for each in found.rounds.values())
    for name, each in found.rounds.items():
        assert getattr(found, name) == sorted(each)[1]
    assert "loopback" in found.notes[0]
    assert not list(tmp_path.iterdir())


def test_a_case_takes_what_was_measured(tmp_path):
    document = json.loads(json.dumps(measure_bandwidths(tmp_path, TINY, 1).to_dict()))
    case = LoadingCase.model_validate(document["loading"])
    assert case.disk == document["loading"]["disk"]
    assert {"machine", "taken", "n_bytes", "rounds", "notes", "where"} <= set(document)


@pytest.mark.parametrize(("cached", "words"), [(1.0, "could not be dropped"), (None, "does not tell")])
def test_a_cache_that_is_not_dropped_is_said(tmp_path, monkeypatch, cached, words):
    monkeypatch.setattr(bandwidths, "_cached", lambda file, n_bytes: cached)
    found = measure_bandwidths(tmp_path, TINY, 1)
    assert found.cached == cached
    assert words in found.notes[1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"n_bytes": 10}, "n_bytes: expected an integer >= 65536"),
        ({"n_bytes": 1e9}, "n_bytes: "),
        ({"rounds": 0}, "rounds: expected an integer >= 1"),
        ({"folder": "nowhere"}, "expected a folder"),
    ],
)
def test_bad_input_is_a_line(tmp_path, given, words):
    with pytest.raises(InputError, match=words) as caught:
        measure_bandwidths(**({"folder": tmp_path} | given))
    assert "\n" not in str(caught.value)
