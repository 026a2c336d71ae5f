"""Arrays without their owner, for compiled code that passes them about.

numba counts an array's owners whenever the array is taken out of a tuple; the search does that many
times for each hypothesis, and these counts took five sixths of its time.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numba.core import types
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array

Array = TypeVar("Array", bound=np.ndarray)


def borrowed(array: Array) -> Array:
    """Return the array; in compiled code one that does not keep its memory alive.

    So it must not outlive the function that was given ``array``.
    """
    return array


@intrinsic
def _without_owner(typing_context: Any, array: types.Array) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view: Any = make_array(signature.return_type)(context, builder, arguments[0])  # type: ignore[no-untyped-call]
        view.meminfo = view.meminfo.type(None)
        view.parent = view.parent.type(None)
        return view._getvalue()

    return array(array), codegen


@overload(borrowed)
def _borrowed(array):  # type: ignore[no-untyped-def]
    if isinstance(array, types.Array):
        return lambda array: _without_owner(array)  # type: ignore[call-arg]
    return None
