"""`Record`: a named tuple of arrays and numbers that compiled functions take as one address.

Numba hands a tuple over field by field, seven words an array: with forty arrays most of what it compiled was the
handing over, again for every function that a kernel calls, and each call counted forty references. A record is laid
out once, by Python; a function gets its address, and reads of it what it names.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from ....lean import Borrowed
from ....reached import digest

__all__ = ["Record"]


class Record:
    """What compiled functions take for a named tuple. It keeps the arrays; a number in it is what it was at first.

    Parameters
    ----------
    fields : NamedTuple
        Arrays in C order, and numbers.
    """

    __slots__ = ("_numba_type_", "address", "fields", "words")

    def __init__(self, fields: Any) -> None:
        self.fields = fields
        self._numba_type_ = kind = _kind(fields)
        self.words = np.empty(kind.n_words, dtype=np.int64)
        self.address = self.words.ctypes.data
        at = 0
        for value, of in zip(fields, kind.kinds, strict=True):
            if isinstance(of, types.Array):
                self.words[at : at + 1 + of.ndim] = (value.__array_interface__["data"][0], *value.shape)
            elif isinstance(of, types.Float):
                self.words[at : at + 1].view(np.float64)[0] = value
            else:
                self.words[at] = value
            at += _words(of)


class RecordType(Borrowed):
    """The type of a record: names and types of its fields, and where each stands."""

    def __init__(self, names: tuple[str, ...], kinds: tuple[types.Type, ...]) -> None:
        self.kinds = kinds
        self.members = dict(zip(names, kinds, strict=True))
        ends = np.cumsum([0, *(_words(kind) for kind in kinds)])
        self.first = {name: int(ends[k]) for k, name in enumerate(names)}
        self.n_words = int(ends[-1])
        super().__init__(name=f"Record.{_layout()[:8]}({', '.join(f'{n}: {k}' for n, k in self.members.items())})")


@cache
def _layout() -> str:
    """A digest of how records are laid out and read: what was compiled for another layout would read past their end.

    Kernels do not reach these functions, so that it stands in the name of the type, by which what is kept is found.
    """
    return digest((Record.__init__, RecordType.__init__, _words, _kind_of, _RecordModel.__init__, _unbox, _field))


def _words(kind: types.Type) -> int:
    """Of an array: where its data are, and its lengths."""
    return 1 + kind.ndim if isinstance(kind, types.Array) else 1


_KINDS: dict[Any, RecordType] = {}


def _kind(fields: Any) -> RecordType:
    """One type object for all records alike: dispatch compares them."""
    kinds: tuple[types.Type, ...] = tuple(map(_kind_of, fields))
    key = type(fields), kinds
    if key not in _KINDS:
        _KINDS[key] = RecordType(fields._fields, kinds)
    return _KINDS[key]


def _kind_of(value: Any) -> types.Type:
    if isinstance(value, bool | np.bool_):
        return types.boolean
    if isinstance(value, int | np.integer):
        return types.int64
    if isinstance(value, float):
        return types.float64
    if not value.flags.c_contiguous:
        raise ValueError("a record's arrays are in C order")
    return typeof(value)


@typeof_impl.register(Record)
def _typeof(value: Any, _: Any) -> RecordType:
    return value._numba_type_


@register_model(RecordType)
class _RecordModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.IntType(64).as_pointer())


@unbox(RecordType)
def _unbox(typ: Any, obj: Any, c: Any) -> Any:
    held = c.pyapi.object_getattr_string(obj, "address")
    address = c.pyapi.long_as_voidptr(held)
    c.pyapi.decref(held)
    return NativeValue(c.builder.bitcast(address, ir.IntType(64).as_pointer()))


@infer_getattr
class _Fields(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, typ: Any, attr: str) -> Any:
        return typ.members.get(attr)


@lower_getattr_generic(RecordType)
def _field(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
    kind, first, whole = typ.members[attr], typ.first[attr], ir.IntType(64)

    def word(k: int) -> Any:
        loaded = builder.load(builder.gep(value, [ir.Constant(whole, first + k)], inbounds=True))
        # nothing writes into a record while compiled code runs: LLVM need not read it again after other writes
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if not isinstance(kind, types.Array):
        read = word(0)
        if isinstance(kind, types.Float):
            return builder.bitcast(read, ir.DoubleType())
        return builder.trunc(read, ir.IntType(1)) if kind == types.boolean else read
    model = context.data_model_manager[kind]
    at = {name: model.get_field_position(name) for name in ("nitems", "itemsize", "data", "shape", "strides")}
    lengths = [word(1 + k) for k in range(kind.ndim)]
    size = ir.Constant(whole, np.dtype(str(kind.dtype)).itemsize)
    nitems, strides = lengths[0], [size]
    for length in lengths[:0:-1]:
        strides.insert(0, builder.mul(length, strides[0]))
    for length in lengths[1:]:
        nitems = builder.mul(nitems, length)
    # what has no owner (`meminfo`, `parent`) is not counted
    array: Any = ir.Constant(model.get_value_type(), None)
    data = builder.inttoptr(word(0), array.type.elements[at["data"]])
    for name, value in (("nitems", nitems), ("itemsize", size), ("data", data)):
        array = builder.insert_value(array, value, at[name])
    for k in range(kind.ndim):
        array = builder.insert_value(array, lengths[k], [at["shape"], k])
        array = builder.insert_value(array, strides[k], [at["strides"], k])
    return array
