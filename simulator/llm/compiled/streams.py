"""NumPy's default random generators in compiled form: the numbers of `seeds.generator`, draw for draw.

Making a generator takes NumPy longer than all numbers that one request draws from it, so streams of many requests are
seeded here: `SeedSequence` (O'Neill's `seed_seq_fe`) and PCG64 (O'Neill, "PCG", 2014: a linear congruential generator
of 128 bits, output XSL-RR), as NumPy has them. NumPy may change what its generators draw, so `agree` compares once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ....jit import inner, kernel
from ....seeds import generator, stream_digest
from .rules import BARE, CALL, LOOP

__all__ = ["HIGH", "LOW", "STEP_HIGH", "STEP_LOW", "agree", "below", "entropy_of", "keys_of", "seeded", "uniform"]

HIGH, LOW, STEP_HIGH, STEP_LOW, SPARE = range(5)
"""What a stream consists of, each 64 bits: the state and the increment of its generator; the upper half of the last
number drawn for integers, with a bit above it while that half is unused."""

_u: Any = np.uint64
_32, _LOW32 = _u(32), _u(0xFFFFFFFF)
_ONE, _ZERO = _u(1), _u(0)
_UNUSED = _u(1 << 32)
_11, _16, _58, _63, _64 = _u(11), _u(16), _u(58), _u(63), _u(64)
# NumPy's constants (numpy/random/bit_generator.pyx and src/pcg64/pcg64.h).
_INIT_A, _MULT_A, _INIT_B, _MULT_B = _u(0x43B0D7E5), _u(0x931E8875), _u(0x8B51F9DD), _u(0x58F38DED)
_MIX_LEFT, _MIX_RIGHT = _u(0xCA01F9DD), _u(0x4973F715)
_FACTOR_HIGH, _FACTOR_LOW = _u(0x2360ED051FC65DA4), _u(0x4385DF649FCCF645)

_inline: Any = inner(**BARE)
_call: Any = inner(**CALL)


def entropy_of(seed: int) -> npt.NDArray[np.uint64]:
    """A seed as `SeedSequence` takes it beside a key: words of 32 bits, at least four."""
    words = [seed >> shift & 0xFFFFFFFF for shift in range(0, max(1, seed.bit_length()), 32)]
    return np.array(words + [0] * (4 - len(words)), dtype=np.uint64)


def keys_of(streams: Iterable[tuple[str | int, ...]]) -> npt.NDArray[np.uint64]:
    """The keys of streams by their names, a row of four words each."""
    digests = b"".join(stream_digest(*names) for names in streams)
    return np.frombuffer(digests, dtype="<u4").reshape(-1, 4).astype(np.uint64)


@_inline
def _product(a: Any, b: Any) -> Any:
    """The product of two words of 64 bits: upper and lower half."""
    a_low, a_high, b_low, b_high = a & _LOW32, a >> _32, b & _LOW32, b >> _32
    low, one, other = a_low * b_low, a_high * b_low, a_low * b_high
    middle = (low >> _32) + (one & _LOW32) + (other & _LOW32)
    return a_high * b_high + (one >> _32) + (other >> _32) + (middle >> _32), a * b


@_inline
def _step(stream: Any) -> None:
    """state = state * factor + increment, modulo 2^128."""
    high, low = _product(stream[LOW], _FACTOR_LOW)
    high += stream[HIGH] * _FACTOR_LOW + stream[LOW] * _FACTOR_HIGH
    total = low + stream[STEP_LOW]
    stream[HIGH] = high + stream[STEP_HIGH] + (_ONE if total < low else _ZERO)
    stream[LOW] = total


@_inline
def _word(stream: Any) -> Any:
    """The next 64 bits."""
    _step(stream)
    folded, turn = stream[HIGH] ^ stream[LOW], stream[HIGH] >> _58
    return (folded >> turn) | (folded << ((_64 - turn) & _63))


@_inline
def uniform(stream: Any) -> float:
    """`Generator.random`: the next number in [0, 1)."""
    return (_word(stream) >> _11) * 1.1102230246251565e-16  # 2^-53


@_inline
def _half(stream: Any) -> Any:
    """The next 32 bits: each word gives its lower half, then its upper one."""
    if stream[SPARE] & _UNUSED:
        stream[SPARE] &= _LOW32
        return stream[SPARE]
    word = _word(stream)
    stream[SPARE] = (word >> _32) | _UNUSED
    return word & _LOW32


@_inline
def below(stream: Any, limit: int) -> Any:
    """`Generator.integers`: the next integer in [0, limit), limit from 2 to 2^32 - 1 (Lemire, 2019)."""
    wide = _u(limit)
    found = _half(stream) * wide
    if found & _LOW32 < wide:
        least = (_UNUSED - wide) % wide
        while found & _LOW32 < least:
            found = _half(stream) * wide
    return np.int64(found >> _32)


@_inline
def _hashed(word: Any, factor: Any, multiplier: Any) -> Any:
    """A word hashed, and the next factor."""
    following = (factor * multiplier) & _LOW32
    word = ((word ^ factor) * following) & _LOW32
    return word ^ (word >> _16), following


@_inline
def _mixed(a: Any, b: Any) -> Any:
    word = (_MIX_LEFT * a - _MIX_RIGHT * b) & _LOW32
    return word ^ (word >> _16)


@_call
def seeded(stream: Any, entropy: Any, key: Any) -> None:
    """Let a stream begin: `default_rng(SeedSequence(seed, spawn_key=key))`."""
    factor = _INIT_A
    for i in range(4):
        stream[i], factor = _hashed(entropy[i], factor, _MULT_A)
    for source in range(4):
        for i in range(4):
            if i != source:
                word, factor = _hashed(stream[source], factor, _MULT_A)
                stream[i] = _mixed(stream[i], word)
    for source in range(4, len(entropy) + 4):
        given = entropy[source] if source < len(entropy) else key[source - len(entropy)]
        for i in range(4):
            word, factor = _hashed(given, factor, _MULT_A)
            stream[i] = _mixed(stream[i], word)
    pool = (stream[0], stream[1], stream[2], stream[3])
    factor = _INIT_B
    for i in range(4):
        low, factor = _hashed(pool[(2 * i) & 3], factor, _MULT_B)
        high, factor = _hashed(pool[(2 * i + 1) & 3], factor, _MULT_B)
        stream[i] = low | (high << _32)
    high, low, step_high, step_low = stream[0], stream[1], stream[2], stream[3]
    stream[STEP_HIGH], stream[STEP_LOW] = (step_high << _ONE) | (step_low >> _63), (step_low << _ONE) | _ONE
    stream[HIGH], stream[LOW], stream[SPARE] = _ZERO, _ZERO, _ZERO
    _step(stream)
    total = stream[LOW] + low
    stream[HIGH] += high + (_ONE if total < low else _ZERO)
    stream[LOW] = total
    _step(stream)


@kernel(**LOOP)
def _some(entropy: Any, key: Any, stream: Any, numbers: Any, integers: Any) -> None:
    """The first numbers of a stream."""
    seeded(stream, entropy, key)
    for i in range(len(numbers)):
        numbers[i] = uniform(stream)
    for i in range(len(integers)):
        integers[i] = below(stream, 3)


@cache
def agree() -> bool:
    """Whether this version of NumPy draws what is drawn here."""
    stream, numbers, integers = np.zeros(5, dtype=np.uint64), np.zeros(8), np.zeros(9, dtype=np.int64)
    _some(entropy_of(2**40 + 7), keys_of([("llm", "check", 1)])[0], stream, numbers, integers)
    rng = generator(2**40 + 7, "llm", "check", 1)
    return bool(np.all(rng.random(8) == numbers) and np.all(rng.integers(3, size=9) == integers))
