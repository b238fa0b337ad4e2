"""Plain crossings of negligible neurons, compiled (``native/follow.c``): all but a few of what happens early on."""

from ctypes import byref
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from biasfree.native import address, library, structure

DONE, MET, FULL = range(3)  # why a neuron is left: nothing more before the end, not plain, no room
_LINES = structure("Lines", "p directions transposed strength drift gram i lines dim knows_gram")
_NEURONS = structure("Neurons", "p first second log_size time side sliding touching rate unit up down across still")
_FLOORS = structure("Floors", "d rounding least inside nothing wrong together")
_LOG = structure("Log", "p crossed when stretches i room count")
_WORK = structure("Work", "p pull turned new_pull free towards products row matrix sides held i count")


def solved(matrix: Float[np.ndarray, "count count"], right: Float[np.ndarray, "count"]) -> Float[np.ndarray, "count"]:
    """The solution of a small system; infinite if there is none. Both arguments are used up."""
    library().biasfree_solve(address(matrix), address(right), len(right))
    return right


def follow(
    neurons: Int[np.ndarray, "some"], until: float, lines: tuple[np.ndarray, ...], state: tuple[np.ndarray, ...],
    modes: tuple[np.ndarray, ...], floors: tuple[float, ...], log: tuple[np.ndarray, ...],
) -> tuple[Int[np.ndarray, "some"], Int[np.ndarray, "some"], int]:  # fmt: skip
    """Take each neuron through its plain crossings before ``until``, until the log is full.

    Args:
        neurons: which.
        until: common end.
        lines: directions, the same transposed, strengths, drift, and the directions' products if there is room for
            them.
        state: first, second, log_size, time, side, sliding, touching of all neurons; changed in place.
        modes: rate, unit, up, down, across, still of all neurons; changed in place.
        floors: rounding of a product and of a sum, the largest ς inside, the c that is none, the dᵀc that counts, and
            the dᵀw, in units of ‖w‖, that is as good as zero.
        log: neuron and line of each crossing, its time, and of the stretch that begins there log_size, rate, up, down,
            still, unit and across.

    Returns:
        For each neuron DONE, MET or FULL, and the line it has met; the number of crossings.
    """
    directions, *_, gram = lines
    (count, dim), sliding, (crossed, when, stretches) = directions.shape, state[5], log
    held = max(1, int(sliding[neurons].sum(axis=1).max(initial=0)))
    room, which = np.empty(3 * dim + 4 * count + held * held + held), np.empty(held, dtype=np.int64)
    begins = address(room) + 8 * np.cumsum([0, dim, dim, dim, count, count, count, count, held * held])
    work = _WORK(*begins.tolist(), address(which, np.int64), 0)
    crossings: Any = _LOG(address(crossed, np.int64), address(when), address(stretches), len(when), 0)
    own = [address(each, each.dtype if each.dtype == bool else np.float64) for each in (*state, *modes)]
    why, met = np.empty((2, len(neurons)), dtype=np.int64)
    boundaries = _LINES(*map(address, lines), count, dim, len(gram) > 0)
    library().biasfree_follow(
        address(neurons, np.int64), len(neurons), until, byref(boundaries), byref(_NEURONS(*own)),
        byref(_FLOORS(*floors)), byref(work), byref(crossings), address(why, np.int64), address(met, np.int64),
    )  # fmt: skip
    return why, met, crossings.count
