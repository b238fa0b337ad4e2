"""What the panels show at each saved time: outputs over a plane, neurons as arrows, outputs on the samples.

**The plane.** Two dimensions are shown as they are. More are shown by the first two principal directions of the inputs
(the mean is not removed: a network without biases knows the origin). With a one stacked on the input, the plane is that
on which it is one.

**Outputs over the plane.** A network without biases is positively homogeneous, f(cx) = c f(x) for c > 0, so its values
on a circle determine all others, and only those are sent. On the plane of stacked ones it is not, and a grid is sent.

**Neurons.** Directions w/‖w‖ in the plane, and log₁₀‖w‖: a start of 1e-100 and an end of 1 both have their place.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.datasets import Dataset

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

ANGLES, GRID = 144, 33
MOST_NEURONS, MOST_SAMPLES, MOST_FRAMES, MOST_EVENTS = 300, 120, 200, 4000
_BUDGET = 760_000  # bytes of all frames, so that a whole answer stays below a megabyte
_WORK = 7_200_000  # frames × neurons × inputs whose outputs are computed one by one: no longer than a run
_ROOM = 1.4  # half width of the plane, in units of the farthest sample
_UNITS = 32000  # of int16
_HELD_AT_ONCE = 2_000_000  # numbers held at a time


class Plane(NamedTuple):
    """Points u e₁ + v e₂ + origin of the input space."""

    axes: Float[np.ndarray, "2 dim"]
    origin: Float[np.ndarray, "dim"]
    names: tuple[str, str]
    kind: str

    @property
    def homogeneous(self) -> bool:
        """Whether it goes through the origin."""
        return not self.origin.any()

    def points(self, flat: Float[np.ndarray, "points 2"]) -> Float[np.ndarray, "points dim"]:
        """Where points of the plane are in the input space."""
        return flat @ self.axes + self.origin


def plane(data: Dataset, ones: bool) -> Plane:
    """The plane that shows this data."""
    axes, origin = np.zeros((2, data.dim)), np.zeros(data.dim)
    shown = data.dim - ones
    if shown <= 2:
        axes[range(shown), range(shown)] = 1.0
        origin[shown:] = 1.0
        return Plane(axes, origin, ("x₁", "x₂"), "stacked ones" if ones else "inputs")
    _, directions = np.linalg.eigh(data.inputs.T @ data.inputs)
    axes[:] = directions.T[::-1][:2]
    # The sign of a principal direction means nothing; its largest entry is made positive.
    largest = axes[range(2), np.abs(axes).argmax(axis=1)]
    return Plane(axes * np.where(largest < 0, -1.0, 1.0)[:, None], origin, ("PC 1", "PC 2"), "principal directions")


def picture(run: "Trajectory", ones: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Head and arrays of everything that moves with time."""
    data, shown = run.dataset, plane(run.dataset, ones)
    flat = data.inputs @ shown.axes.T
    half = _ROOM * float(np.abs(flat).max()) or 1.0
    samples = _some(data.samples, MOST_SAMPLES)
    neurons = _some(run.weights[0].shape[1], MOST_NEURONS)
    # Outputs against targets are shown where the plane does not show all there is.
    compared = data.inputs[samples if shown.kind == "principal directions" else []]
    points = ANGLES if shown.homogeneous else GRID**2
    around = shown.homogeneous and len(run.weights) == 2 and run.template.rectified[0]
    per_frame = 4 * points + 7 * len(neurons) + 4 * len(compared)
    work = run.weights[0].shape[1] * (len(compared) + (0 if around else points)) or 1
    frames = _some(len(run.times), int(min(MOST_FRAMES, max(2, _BUDGET // per_frame), max(50, _WORK // work))))
    if around:
        surface = _around(run, frames, shown)
    else:
        surface = _outputs(run, frames, shown.points(_circle() if shown.homogeneous else _grid(half)))
    # In units of each frame's own largest, which may be 1e-200.
    largest = np.abs(surface).max(axis=1)
    arrays = {
        "frames": frames.astype(np.int32),
        "outputs": _outputs(run, frames, compared).astype(np.float32),
        "surface": (surface / np.where(largest > 0, largest, 1.0)[:, None]).astype(np.float32),
        "largest": largest,
        "samples": flat[samples],
        "targets": data.targets[samples],
    }
    head: dict[str, Any] = {
        "plane": {"kind": shown.kind, "names": shown.names, "half": half, "homogeneous": shown.homogeneous},
        "samples": {"all": data.samples, "shown": len(samples), "dim": data.dim},
    }
    moved, described = _neurons(run, frames, neurons, shown)
    return head | {"neurons": described} | _boundaries(data, shown), arrays | moved


def _some(count: int, most: int) -> np.ndarray:
    """All indices, or evenly chosen ones with the first and the last."""
    return np.unique(np.round(np.linspace(0, count - 1, min(count, most))).astype(int))


def _circle() -> np.ndarray:
    angle = 2 * np.pi * np.arange(ANGLES) / ANGLES
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _grid(half: float) -> np.ndarray:
    axis = np.linspace(-half, half, GRID)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def _around(run: "Trajectory", frames: np.ndarray, shown: Plane) -> Float[np.ndarray, "frames angles"]:
    """f of two layers at evenly spaced angles of the circle, in a time that does not grow with neurons times angles.

    A neuron whose w lies at the angle φ in the plane is active on the half circle around φ, on half of the angles. So
    (1 − α) Σ v w over the active neurons is a running sum around the circle, of what enters and leaves at each angle,
    and f(θ) is its product with (cos θ, sin θ), plus α Σ v w for all.
    """
    first = run.weights[0][frames] @ shown.axes.T
    carried = first * run.weights[1][frames][:, 0, :, None]
    turn = np.arctan2(first[..., 1], first[..., 0]) / (2 * np.pi) * ANGLES
    enters = np.ceil(turn - ANGLES / 4).astype(int) % ANGLES
    leaves = (enters + ANGLES // 2) % ANGLES
    before = leaves < enters  # active where the count begins
    row = ANGLES * np.arange(len(frames))[:, None]
    places = [(row + at).ravel() for at in (enters, leaves)]
    slope, size = run.template.slope, ANGLES * len(frames)
    outputs = np.zeros((len(frames), ANGLES))
    for axis, direction in enumerate(_circle().T):
        part = carried[..., axis]
        entered, left = (np.bincount(at, part.ravel(), size).reshape(-1, ANGLES) for at in places)
        active = (entered - left).cumsum(axis=1) + (part * before).sum(axis=1)[:, None]
        outputs += direction * (slope * part.sum(axis=1)[:, None] + (1 - slope) * active)
    return outputs


def _outputs(run: "Trajectory", frames: np.ndarray, inputs: np.ndarray) -> Float[np.ndarray, "frames inputs"]:
    """f at these inputs, at each frame, to single precision; a few frames at a time, so that memory stays small.

    Layers are brought to size one first: those of 1e-100 have no single precision.
    """
    slope, rectified = np.float32(run.template.slope), run.template.rectified
    columns = np.ascontiguousarray(inputs.T, dtype=np.float32)
    outputs = np.empty((len(frames), len(inputs)))
    width = max(layer.shape[1] for layer in run.weights)
    block = max(1, _HELD_AT_ONCE // (width * max(1, len(inputs))))
    for begin in range(0, len(frames), block):
        now = frames[begin : begin + block]
        (first, *later), unit = _of_size_one(run, now)
        # All frames' first layers at once, as one large product.
        signal = (first.reshape(-1, first.shape[2]) @ columns).reshape(*first.shape[:2], -1)
        for layer, weights in enumerate(later):
            if rectified[layer]:
                np.maximum(signal, slope * signal if slope else 0.0, out=signal)
            signal = weights @ signal
        outputs[begin : begin + block] = unit[:, None] * signal[:, 0]
    return outputs


def _of_size_one(run: "Trajectory", frames: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """All layers at some times, each divided by its largest entry, and the product of these."""
    layers, unit = [], np.ones(len(frames))
    for weights in run.weights:
        chosen = weights[frames]
        largest = np.abs(chosen).max(axis=(1, 2))
        unit = unit * largest
        layers.append((chosen / np.where(largest > 0, largest, 1.0)[:, None, None]).astype(np.float32))
    return layers, unit


def _neurons(
    run: "Trajectory", frames: np.ndarray, chosen: np.ndarray, shown: Plane
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Directions, sizes and signs of first-layer neurons, as whole numbers; the head states their units."""
    first = run.weights[0][np.ix_(frames, chosen)]
    largest = np.abs(first).max(axis=2)
    unit = np.where(largest > 0, largest, 1.0)
    # Squares of 1e-170 are zero, so the largest entry is taken out first.
    length = np.sqrt(((first / unit[..., None]) ** 2).sum(axis=2))
    with np.errstate(divide="ignore"):
        size = np.log10(unit * np.where(largest > 0, length, 0.0))
    there = np.isfinite(size)
    low, high = (float(size[there].min()), float(size[there].max())) if there.any() else (0.0, 0.0)
    span = max(high - low, 1e-9)
    direction = first @ shown.axes.T / (unit * np.where(length > 0, length, 1.0))[..., None]
    outgoing = run.weights[1][frames][:, :, chosen]
    if len(run.weights) > 2:
        outgoing = run.weights[2][frames] @ outgoing
    arrays = {
        "directions": np.round(_UNITS * direction).astype(np.int16),
        "sizes": np.round(_UNITS * (np.where(there, size, low) - low) / span).astype(np.int16),
        "signs": np.sign(outgoing[:, 0]).astype(np.int8),
    }
    described = {
        "all": run.weights[0].shape[1], "shown": len(chosen), "smallest": low, "largest": high, "units": _UNITS,
        "reach": float(np.sqrt((direction**2).sum(axis=2)).max()) or 1.0,
        "sign_of": "w₂" if len(run.weights) == 2 else "W₃W₂",
    }  # fmt: skip
    return arrays, described


def _boundaries(data: Dataset, shown: Plane) -> dict[str, Any]:
    """Angles of the lines wᵀx = 0 on which a neuron's response to a sample changes; in the plane of two inputs only."""
    if shown.kind != "inputs" or data.dim != 2:
        return {"boundaries": []}
    from biasfree.lines import lines

    directions = lines(data.inputs).directions[:MOST_SAMPLES]
    return {"boundaries": np.arctan2(directions[:, 0], -directions[:, 1])}
