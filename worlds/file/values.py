"""One YAML scalar: text, number, boolean or nothing; or a trap, which the versions of YAML read differently."""

from __future__ import annotations

import math
import re

__all__ = ["Trap", "scalar"]

INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
LARGEST = 2**63 - 1
"""Largest whole number that results stores hold."""

CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip

WORDS = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
EXPONENT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")
OCTAL = re.compile(r"[-+]?0o?[0-9_]+")
HEX = re.compile(r"[-+]?0[xXbB][0-9a-fA-F_]+")
UNDERSCORE = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?")
SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")
SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class Trap(ValueError):
    """A scalar that says something else than it looks like; the message says what to write."""


def scalar(text: str, plain: bool) -> str | int | float | bool | None:
    """What a scalar says.

    Parameters
    ----------
    text : str
        Its text, without quotes.
    plain : bool
        Whether it stands there without quotes.

    Raises
    ------
    Trap
        If YAML's versions, or a person and YAML, read it differently.
    """
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise Trap("text must not hold NUL or half a character; leave it out")
    if not plain:
        return text
    if text in CONSTANTS:
        return CONSTANTS[text]
    if INT.fullmatch(text):
        if len(text) > 20 or abs(int(text)) > LARGEST:
            raise Trap(f"expected a whole number below 2^63 (got {text[:25]}…); quote it if it is text")
        return int(text)
    if FLOAT.fullmatch(text):
        if math.isinf(float(text)):
            raise Trap(f"too large a number (got {text[:25]}); quote it if it is text")
        return float(text)
    _refuse(text)
    return text


def _refuse(text: str) -> None:
    """Raise if plain text is a trap."""
    quoted = f'quote it if it is text: "{text}"'
    if WORDS.fullmatch(text):
        truth = "true" if text.lower() in ("yes", "on") else "false"
        raise Trap(f'YAML reads {text} as a boolean; write "{text}" in quotes, or {truth}')
    if EXPONENT.fullmatch(text):
        raise Trap(f"YAML reads {text} as text; write {_number(text)}, or {quoted}")
    if TIMESTAMP.fullmatch(text):
        raise Trap(f"YAML reads {text} as a date; {quoted}")
    if SEXAGESIMAL.fullmatch(text):
        raise Trap(f"YAML reads {text} as a number to base 60; write seconds, or {quoted}")
    if UNDERSCORE.fullmatch(text):
        raise Trap(f"YAML's versions read {text} differently; write {text.replace('_', '')}, or {quoted}")
    if OCTAL.fullmatch(text):
        digits = text.replace("_", "").replace("o", "").lstrip("+-0") or "0"
        raise Trap(f"YAML reads {text} as octal or as text; write {digits} if it is decimal, or {quoted}")
    if HEX.fullmatch(text):
        raise Trap(f"expected a decimal number (got {text}); write it in decimal, or {quoted}")
    if SPECIAL.fullmatch(text):
        raise Trap(f"expected a finite number (got {text}); leave the key out where there is no limit")


def _number(text: str) -> str:
    """The same number as every YAML reads it."""
    mantissa, exponent = text.lower().split("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    signed = f"{mantissa}e{exponent if exponent[0] in '+-' else '+' + exponent}"
    value = float(text)
    return f"{signed} or {value:.0f}" if value.is_integer() and abs(value) < 1e15 else signed
