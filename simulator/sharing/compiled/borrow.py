"""`borrowed`: arrays that compiled functions do not count references to."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.typing.templates import signature as signature_of
from numba.extending import intrinsic

__all__ = ["borrowed"]


def _borrowed(typingctx: Any, fields: Any) -> Any:
    """A named tuple with the same arrays, none of which owns its memory: whoever calls keeps the tuple that does.

    Numba counts a reference to every array of a tuple, atomically, whenever a function takes the tuple: with dozens
    of them that is more than half of the time of a simulation. What owns nothing is not counted.
    """
    if not isinstance(fields, types.NamedTuple):
        return None

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        value = args[0]
        for k, field in enumerate(fields.types):
            if isinstance(field, types.Array):
                array = context.make_array(field)(context, builder, builder.extract_value(value, k))
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                array.parent = cgutils.get_null_value(array.parent.type)
                value = builder.insert_value(value, array._getvalue(), k)
        return value

    return signature_of(fields, fields), codegen


borrowed: Any = intrinsic(_borrowed)
