"""What `/v1/completions` takes and gives: OpenAI's fields, checked, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from .....errors import InputError, MeshwrightError
from ..sampling import Sampling
from .tokenizer import EOS, ByteTokenizer

__all__ = ["ApiError", "Completion", "read_completion"]

MAX_CHOICES = 128
"""Most choices (`n`) of a prompt: OpenAI's own bound."""
MAX_REQUESTS = 2048
"""Most prompts times choices of one call: each is a request of the engine. A guess, so that no call fills its queue."""
LONGEST_MESSAGE = 600
"""Characters of an error's message: what a client sent does not come back in full."""
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "echo": (None, False),
    "logprobs": (None, False),
    "suffix": (None, ""),
    "stop": (None, [], ""),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0, 0.0),
    "frequency_penalty": (None, 0, 0.0),
    "repetition_penalty": (None, 1, 1.0),
    "top_k": (None, -1, 0),
    "min_p": (None, 0, 0.0),
    "min_tokens": (None, 0),
    "use_beam_search": (None, False),
    "length_penalty": (None, 1, 1.0),
    "prompt_logprobs": (None,),
    "response_format": (None, {"type": "text"}),
    "structured_outputs": (None,),
    **{f"guided_{how}": (None,) for how in ("json", "regex", "choice", "grammar")},
    "bad_words": (None, []),
    "allowed_token_ids": (None,),
    "logits_processors": (None, []),
    "truncate_prompt_tokens": (None,),
    "prompt_embeds": (None,),
    "include_stop_str_in_output": (None, False),
}
"""Fields that are known and not carried out, with the values that ask for nothing."""


_KINDS: Mapping[int, str] = {401: "AuthenticationError", 404: "NotFoundError", 503: "ServiceUnavailableError"}


class ApiError(MeshwrightError):
    """An answer other than 200.

    Parameters
    ----------
    status : int
        HTTP status.
    message : str
        What was expected, and what came.
    param : str, optional
        The field.
    """

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message[:LONGEST_MESSAGE])
        self.status, self.param = status, param

    def body(self) -> dict[str, Any]:
        """As OpenAI's clients read it."""
        kind = _KINDS.get(self.status, "BadRequestError" if self.status < 500 else "InternalServerError")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.status}}


@dataclass(frozen=True, slots=True)
class Completion:
    """A request for completions.

    Parameters
    ----------
    prompts : tuple of tuple of int
        Token ids of each prompt.
    max_tokens, n : int
        Tokens of a choice, and choices of each prompt.
    sampling : tuple of Sampling
        Of each choice of a prompt.
    stream, include_usage : bool
        Whether tokens are sent as they come, and their number at the end.
    """

    prompts: tuple[tuple[int, ...], ...]
    max_tokens: int
    n: int
    sampling: tuple[Sampling, ...]
    stream: bool
    include_usage: bool


def read_completion(said: Any, model: str, tokenizer: ByteTokenizer, max_model_len: int) -> Completion:
    """Check the JSON of a request. No text is made into tokens that would be more than the model can take.

    Raises
    ------
    ApiError
        404 on another model, 400 on anything else that is wrong.
    """
    if not isinstance(said, dict):
        raise ApiError(400, f"expected a JSON object (got {type(said).__name__})")
    given = cast("dict[str, Any]", said)
    asked = given.get("model")
    if asked is not None and asked != model:
        raise ApiError(404, f"The model `{asked}` does not exist; served: `{model}`.", "model")
    for name, values in NEUTRAL.items():
        if not any(_same(given.get(name), value) for value in values):
            raise ApiError(400, f"{name}: this engine does not do it; leave it out (got {given[name]!r})", name)
    if "prompt" not in given:
        raise ApiError(400, "prompt: expected a string, token ids, or a list of either (got nothing)", "prompt")
    prompts = _prompts(given["prompt"], tokenizer, max_model_len)
    n = _integer(given, "n", 1, 1, MAX_CHOICES)
    if n * len(prompts) > MAX_REQUESTS:
        raise ApiError(400, f"prompt: expected prompts times n <= {MAX_REQUESTS} (got {len(prompts)} times {n})", "n")
    if not (_same(given.get("best_of"), None) or _same(given.get("best_of"), n)):
        raise ApiError(400, f"best_of: expected n or nothing (got {given['best_of']!r})", "best_of")
    stream = _flag(given, "stream")
    return Completion(
        prompts,
        max_tokens=_integer(given, "max_tokens", 16, 1, None),  # OpenAI's default, as 1 is for temperature and top_p
        n=n,
        sampling=tuple(_sampling(given, n, tokenizer.vocab)),
        stream=stream,
        include_usage=_include_usage(given, stream),
    )


def _sampling(given: Mapping[str, Any], n: int, vocab: int) -> list[Sampling]:
    heat = _number(given, "temperature", 1.0, 0.0, 2.0)
    top_p = _number(given, "top_p", 1.0, 0.0, 1.0)
    seed = _integer(given, "seed", -1, 0, 2**63 - 1)
    ends: Any = given.get("stop_token_ids")
    ends = [] if ends is None else ends
    if not isinstance(ends, list) or not all(_is_int(t) and 0 <= t < vocab for t in cast("list[Any]", ends)):
        raise ApiError(400, f"stop_token_ids: expected token ids in [0, {vocab}) (got {ends!r})", "stop_token_ids")
    own: list[int] = [] if _flag(given, "ignore_eos") else [EOS]
    stop: frozenset[int] = frozenset([*cast("list[int]", ends), *own])
    try:
        return [Sampling(heat, top_p, None if seed < 0 else seed + k, stop) for k in range(n)]
    except InputError as error:
        raise ApiError(400, str(error), str(error).partition(":")[0]) from None


def _prompts(prompt: Any, tokenizer: ByteTokenizer, longest: int) -> tuple[tuple[int, ...], ...]:
    texts: list[Any] | None = None
    found: list[list[int]] = []
    if isinstance(prompt, str):
        texts = [prompt]
    elif isinstance(prompt, list) and prompt:
        items = cast("list[Any]", prompt)
        if all(isinstance(x, str) for x in items):
            texts = items
        elif all(_is_int(x) for x in items):
            found = [items]
        elif all(isinstance(x, list) and all(_is_int(t) for t in cast("list[Any]", x)) for x in items):
            found = items
        else:
            raise ApiError(400, "prompt: expected strings only, or token ids only", "prompt")
    else:
        raise ApiError(400, f"prompt: expected a string, token ids, or a list of either (got {prompt!r:.60})", "prompt")
    if texts is not None:
        for text in texts:
            _fits(len(text), "characters", longest)  # a character is a token at least
        found = [_encoded(text, tokenizer) for text in texts]
    for tokens in found:
        if not tokens:
            raise ApiError(400, "prompt: expected at least one token (got an empty one)", "prompt")
        _fits(len(tokens), "tokens", longest)
        if not 0 <= min(tokens) <= max(tokens) < tokenizer.vocab:
            raise ApiError(400, f"prompt: expected token ids in [0, {tokenizer.vocab})", "prompt")
    return tuple(tuple(tokens) for tokens in found)


def _fits(size: int, what: str, longest: int) -> None:
    if size >= longest:
        raise ApiError(
            400, f"prompt: {size} {what}: max_model_len {longest} leaves no room for an output; shorten it", "prompt"
        )


def _encoded(text: str, tokenizer: ByteTokenizer) -> list[int]:
    try:
        return tokenizer.encode(text)
    except UnicodeEncodeError:
        raise ApiError(400, "prompt: expected text (got half of a surrogate pair)", "prompt") from None


def _include_usage(given: Mapping[str, Any], stream: bool) -> bool:
    options: Any = given.get("stream_options")
    if options is None:
        return False
    if not stream or not isinstance(options, dict):
        raise ApiError(400, "stream_options: expected an object, and only with stream", "stream_options")
    return _flag(cast("dict[str, Any]", options), "include_usage")


def _same(value: Any, other: Any) -> bool:
    """Whether two values of JSON are equal and of one kind: 0 is not false, ``logprobs: 0`` asks for something."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(given: Mapping[str, Any], name: str, default: int, least: int, most: int | None) -> int:
    value = given.get(name)
    if value is None:
        return default
    if not _is_int(value) or value < least or (most is not None and value > most):
        upto = "" if most is None else f" and <= {most}"
        raise ApiError(400, f"{name}: expected an integer >= {least}{upto} (got {value!r})", name)
    return value


def _number(given: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = given.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ApiError(400, f"{name}: expected a number from {least:g} to {most:g} (got {value!r})", name)
    return float(value)


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ApiError(400, f"{name}: expected true or false (got {value!r})", name)
    return value
