"""The exact flow of two-layer networks: see docs/exact.md."""

import functools
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController

from biasfree.dynamics.exact._exact import Exact

__all__ = ["Exact", "one_thread"]


def one_thread() -> AbstractContextManager[object]:
    """Linear algebra by one thread: for matrices this small more cost more than they give."""
    return _threads().limit(limits=1, user_api="blas")


@functools.cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()
