"""A toy tokenizer: one token per byte. Weights are random, so what a text means does not matter, its length does."""

from __future__ import annotations

from .....errors import InputError

__all__ = ["EOS", "ByteTokenizer"]

EOS = 256
"""Token that ends an output, unless it is to be ignored."""


class ByteTokenizer:
    """Texts as their UTF-8 bytes; tokens as one visible character each, so that every token can be streamed.

    Characters of tokens below 128 are their own bytes; others stand for themselves only.

    Parameters
    ----------
    vocab : int
        Tokens of the model, at least 257.

    Raises
    ------
    InputError
        On a smaller vocabulary.
    """

    def __init__(self, vocab: int) -> None:
        if vocab <= EOS:
            raise InputError(f"tokenizer: bytes and an end token need a vocabulary of {EOS + 1} (got {vocab})")
        self.vocab = vocab

    def encode(self, text: str) -> list[int]:
        """Token ids of a text.

        Raises
        ------
        UnicodeEncodeError
            If it holds half of a surrogate pair.
        """
        return list(text.encode("utf-8"))

    def decode(self, token: int) -> str:
        """One character for a token; none for the end."""
        if token == EOS:
            return ""
        if token < 32 and token not in (9, 10):
            return chr(0x2400 + token)  # the symbol for a control character
        if token == 127:
            return "\u2421"
        return chr(token) if token < 128 else chr(0x100 + token)
