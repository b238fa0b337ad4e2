"""Steps one after the other, until something happens within one (``native/march.c``)."""

from ctypes import Structure, byref
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._arrays import Desk, Form, Limits, Pattern, Sought, Trial
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._kernels import METHODS, engine
from biasfree.dynamics.exact._methods import Method
from biasfree.native import address, structure

_GOING = structure("Going", "d left smallest longest step per_time energy level rate i stiff steps")
_MARCHED = structure("Marched", "d step smallest rate i steps rejected stiff crossings")
_APART = structure("Apart", "p spread share")


class Going(NamedTuple):
    """How a march may go."""

    left: float  # time until its end
    smallest: float  # step below which it gives up
    longest: float  # step
    step: float  # wanted first
    per_time: float  # 1/time over which an error may be as large as the tolerance; 0: over any step
    stiff: int  # steps held by stability, less those that were not
    steps: int  # accepted ones, at most
    energy: float  # so far
    level: float  # ln L at which it ends
    rate: float = 0.0  # the fastest, as far as it is known


class Marched(NamedTuple):
    """How a march went.

    Attributes:
        steps, rejected: their number; what the last one met is in ``Sought``.
        step: wanted next.
        stiff: as in ``Going``.
        smallest: accepted step.
        rate: as in ``Going``.
        crossings: in ``Sought``; -1 if nothing at all happened.
    """

    steps: int
    rejected: int
    step: float
    stiff: int
    smallest: float
    rate: float
    crossings: int


def march(
    z: Float[np.ndarray, "rows columns"], going: Going, data: Data, pattern: Pattern, form: Form, limits: Limits,
    method: Method, apart: Float[np.ndarray, "2 passive"], own: Structure | None, trial: Trial, desk: Desk,
    sought: Sought,
) -> Marched:  # fmt: skip
    """Steps from rows ``z``; ``trial`` holds them all, ``sought`` what happened in the last one.

    ``apart`` holds spread and share of the passive rows (``Merged``), ``own`` what is kept (``_balance``). The velocity
    where the steps end is the trial's first stage.
    """
    marched = _MARCHED()
    engine().biasfree_march(
        address(z), byref(_GOING(**going._asdict())), byref(data.c), byref(pattern.c), byref(form.c), byref(limits.c),
        byref(METHODS[method.number]), byref(apart_in_c(apart)), own if own is None else byref(own), byref(trial.c),
        byref(desk.c), byref(sought.c), byref(marched),
    )  # fmt: skip
    return Marched(
        marched.steps, marched.rejected, marched.step, marched.stiff, marched.smallest, marched.rate, marched.crossings
    )


def apart_in_c(apart: Float[np.ndarray, "2 passive"]) -> Structure:
    """Spread and share of the passive rows, for C."""
    begin = address(apart)
    return _APART(begin, begin + apart.itemsize * apart.shape[1])
