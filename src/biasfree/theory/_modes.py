"""Several outputs on symmetric data: the linear twin, and its modes that are learned one after the other.

**The twin, for any number of outputs.** Let Condition 3 hold and f be linear, f = Fx. Then r = y − f is odd, its
half-space averages vanish (Lemmas 10 and 11), and a neuron (w, v), v ∈ R^K, of any direction obeys

    ẇ = aRᵀv,   v̇ = aRw,   R = ⟨r xᵀ⟩ = β − FΣ,   a = (1+α)/2.

That is a linear network's flow at a times the pace, and linear in (w, v): neurons that start as multiples c_h (w, v) of
each other stay so. Their even part is b v|wᵀx| Σc_h|c_h|, which vanishes for ever if Σc_h|c_h| = 0. So Theorem 5 holds
exactly for every start that consists of groups of multiples with Σc_h|c_h| = 0: Assumption 4 is one such group, a
neuron and its mirror image (−w, −v) are the smallest (``mirrored``). Nothing but the oddness of r was used of the loss.
With cross-entropy r = y − softmax(f), and softmax(f) + softmax(−f) is constant for two classes only: for three and more
the twin holds while f is small, and no longer.

**Modes.** Let β = Σ_i s_i u_i z_iᵀ, s falling. From small weights the growing part of the early flow is

    W₁ ≈ Σ_i e^{as_it} r_i z_iᵀ,   W₂ ≈ Σ_i e^{as_it} u_i r_iᵀ,   r_i = (W₁(0)z_i + W₂(0)ᵀu_i)/2,

balanced. Of a ReLU network's neurons those with r_ih > 0 make up the half (z_i, u_i) of mode i, those with r_ih < 0 the
half (−z_i, −u_i), which answers to the other half of the data. Mode i escapes at about ln(1/‖r_i‖)/(as_i).

**Time course on white input** Σ = cI. With t̃ = at, G_ij = a r_iᵀr_j and S = diag(s) the twin started in its growing
part solves a Riccati equation (Fukumizu 1998; Saxe et al. 2014 is the case of orthogonal r_i):

    F(t) = U A(t) Zᵀ,   A(t) = e^{St̃} [G⁻¹ + c S⁻¹(e^{2St̃} − I)]⁻¹ e^{St̃}.

Each A_ii is a step of its own at t_i ≈ ln(s_i/(cG_ii))/(2as_i). Once mode 1 is learned, what the other r_i share with
r₁ is unlearned: each mode starts with what its r_i has across all earlier ones.

**Any Σ.** With R₀ = [r₁, …] = QT, Q orthonormal and T upper triangular, W₁ = QX and W₂ = YQᵀ for all times, and

    dX/dt̃ = YᵀR,   dY/dt̃ = RXᵀ,   R = β − YXΣ,

whose cost depends neither on the width nor on the samples. Row j of X belongs to modes j and later, so that each mode
keeps its figures however small it is. Plateaus are the saddles of linear networks (Baldi & Hornik 1989): the best maps
of rank k, with losses L_min + ½ Σ_{i>k} λ_i, λ the eigenvalues of βΣ⁺βᵀ, which are s_i²/c on white input.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.networks import Network
from biasfree.theory._early import escape_time, layers_and_pace, singular_modes
from biasfree.theory._limits import least_squares, linear_loss, principal_axes

# Until the largest mode has this size, its output is negligible to rounding and the early solution is exact.
_EARLY = 1e-7
# Σ that differs from a multiple of I by less is white.
_WHITE = 1e-9
_RTOL = 1e-10


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes in which a network grows from small weights: singular vectors of β, strongest first.

    Attributes:
        strengths: s_i, shape (modes,).
        rates: of growth, as_i; shape (modes,).
        inputs: z_i, unit vectors, shape (modes, dim).
        outputs: u_i, unit vectors, shape (modes, outputs).
        readouts: r_i, what each neuron has of the growing mode at t = 0; shape (modes, width).
    """

    strengths: Float[np.ndarray, "modes"]
    rates: Float[np.ndarray, "modes"]
    inputs: Float[np.ndarray, "modes dim"]
    outputs: Float[np.ndarray, "modes outputs"]
    readouts: Float[np.ndarray, "modes width"]

    @property
    def norms(self) -> Float[np.ndarray, "modes"]:
        """‖r_i‖."""
        return np.hypot(*self.halves.T)

    @property
    def halves(self) -> Float[np.ndarray, "modes 2"]:
        """‖r_i⁺‖ and ‖r_i⁻‖: the starts of the half (z_i, u_i) and of the half (−z_i, −u_i)."""
        size = np.abs(self.readouts).max(axis=1, keepdims=True)
        scaled = self.readouts / np.where(size > 0, size, 1.0)
        both = [np.linalg.norm(np.maximum(sign * scaled, 0), axis=1) for sign in (1, -1)]
        return size * np.stack(both, axis=1)

    @property
    def imbalances(self) -> Float[np.ndarray, "modes"]:
        """ε_i = (‖r_i⁺‖² − ‖r_i⁻‖²)/‖r_i‖², each about N(0, 3/width) for a random start."""
        share = self.halves / self.norms[:, None]
        return share[:, 0] ** 2 - share[:, 1] ** 2

    @property
    def escape_times(self) -> Float[np.ndarray, "modes"]:
        """ln(1/‖r_i‖)/(as_i): about when each mode has grown to order one."""
        pairs = zip(self.norms, self.rates, strict=True)
        return np.array([escape_time(norm, rate) if norm > 0 else np.inf for norm, rate in pairs])

    def __len__(self) -> int:
        """How many there are."""
        return len(self.strengths)

    def __str__(self) -> str:
        """Strengths and escape times."""
        rows = zip(self.strengths, self.escape_times, strict=True)
        return f"{len(self)} mode{'s' * (len(self) != 1)}: " + ", ".join(f"s = {s:.4g} at t ≈ {t:.4g}" for s, t in rows)


def growing_modes(network: Network, dataset: Dataset, loss: str = "square") -> Modes:
    """The singular modes of β = ⟨r₀xᵀ⟩ that a small network grows in, with rates and starts; r₀ the residual at f = 0.

    Condition 3 is assumed, not checked; a linear network needs none.

    Args:
        network: two layers, any number of outputs, any scale.
        dataset: as many outputs as the network has.
        loss: its name; for cross-entropy r₀ = y − 1/K.

    Raises:
        ValueError: another depth, shapes that do not fit, β = 0.

    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]]).symmetrised()
    >>> modes = growing_modes(Network.init([2, 10, 2], slope=0.0, init_scale=1e-6, seed=0), data)
    >>> modes.strengths, modes.rates
    (array([1. , 0.5]), array([0.5 , 0.25]))
    """
    first, second, a = layers_and_pace(network, dataset)
    outputs, strengths, inputs = singular_modes(dataset, loss)
    return Modes(strengths, a * strengths, inputs, outputs, 0.5 * (inputs @ first.T + outputs @ second))


@dataclass(frozen=True, eq=False)
class ModeStaircase:
    """The predicted learning curve of a network on symmetric data, mode by mode (square loss).

    Attributes:
        modes: in the order in which they are learned, strongest first.
        levels: the loss of the plateaus: before any mode is learned, after the first, …; shape (modes + 1,).
        times: when each mode's strength u_iᵀFz_i passes half of its final value; shape (modes,).
        white: whether Σ is a multiple of I, so that the time course is a closed form.
        dataset, slope: what was asked.
    """

    modes: Modes
    levels: Float[np.ndarray, "levels"]
    times: Float[np.ndarray, "modes"]
    white: bool
    dataset: Dataset
    slope: float

    def maps(self, times: Float[Any, "*times"]) -> Float[np.ndarray, "*times outputs dim"]:
        """F(t) of f = F(t)x: the network's own at time t, its linear twin's at (1+α)t/2."""
        t = checks.flow_times(times)
        if self.white:
            return self.modes.outputs.T @ _closed(self, t) @ self.modes.inputs
        first, second = self.twin_weights(t)
        return second @ first

    def strengths(self, times: Float[Any, "*times"]) -> Float[np.ndarray, "*times modes"]:
        """u_iᵀF(t)z_i of each mode; on white input it ends at s_i/c."""
        return np.einsum("mk,...kd,md->...m", self.modes.outputs, self.maps(times), self.modes.inputs)

    def losses(self, times: Float[Any, "*times"]) -> Float[np.ndarray, "*times"]:
        """The predicted loss curve."""
        maps = self.maps(times)
        return linear_loss(maps[..., 0, :] if self.dataset.outputs == 1 else maps, self.dataset)

    def twin_weights(
        self, times: Float[Any, "*times"]
    ) -> tuple[Float[np.ndarray, "*times width dim"], Float[np.ndarray, "*times outputs width"]]:
        """W₁ and W₂ of the linear twin when the network is at t, started in its growing part."""
        t = checks.flow_times(times)
        frame, rows, columns = _reduced(self, t.ravel())
        shapes = (*t.shape, len(frame), rows.shape[-1]), (*t.shape, columns.shape[-2], len(frame))
        return (frame @ rows).reshape(shapes[0]), (columns @ frame.T).reshape(shapes[1])

    def __str__(self) -> str:
        """Steps with their times."""
        levels = " → ".join(f"{level:.4g}" for level in self.levels)
        return f"{len(self.modes)} modes: loss {levels} at t = {', '.join(f'{t:.4g}' for t in self.times)}"


def mode_staircase(network: Network, dataset: Dataset) -> ModeStaircase:
    """The stages in which a small network learns symmetric data with several outputs (square loss).

    Exact for the linear twin in the limit of small weights. A ReLU network follows it up to its finite width
    (``finite_width_response``). Condition 3 is assumed, not checked; a linear network needs none.

    Args:
        network: the start: two layers, small weights, at least as many neurons as β has modes.
        dataset: as many outputs as the network has.

    Raises:
        ValueError: another depth, shapes that do not fit, β = 0, too few neurons.

    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]]).symmetrised()
    >>> stairs = mode_staircase(Network.init([2, 10, 2], slope=0.0, init_scale=1e-6, seed=0), data)
    >>> print(stairs)
    2 modes: loss 1.25 → 0.25 → 0 at t = ...
    """
    modes = growing_modes(network, dataset)
    width = network.widths[1]
    rank = np.linalg.matrix_rank(modes.readouts / modes.norms[:, None])
    if rank < len(modes):
        raise ValueError(
            f"{len(modes)} modes need {len(modes)} independent neurons to be learned, and this start has {rank} "
            f"(width {width}). Use a wider network."
        )
    covariance, dim = dataset.covariance, dataset.dim
    power = np.trace(covariance) / dim
    white = bool(np.abs(covariance - power * np.eye(dim)).max() <= _WHITE * power)
    explained = np.linalg.svd(principal_axes(dataset).targets.reshape(-1, dataset.outputs), compute_uv=False) ** 2
    left = np.cumsum(np.append(np.sort(explained)[::-1][: len(modes)], 0.0)[::-1])[::-1]
    best = float(linear_loss(least_squares(dataset), dataset))
    best = 0.0 if best <= 1e-26 * left[0] else best
    slope = 1.0 if network.is_linear else network.slope
    stairs = ModeStaircase(modes, best + 0.5 * left, np.full(len(modes), np.nan), white, dataset, slope)
    return ModeStaircase(modes, stairs.levels, _half_times(stairs), white, dataset, slope)


def _half_times(stairs: ModeStaircase) -> np.ndarray:
    """When each strength first passes half of its final value; the grid is refined around each."""
    modes = stairs.modes
    limit = np.einsum("mk,kd,md->m", modes.outputs, np.atleast_2d(least_squares(stairs.dataset)), modes.inputs)
    end = 2.5 * float(modes.escape_times.max()) + 30 / float(modes.rates.min())
    low, high = np.zeros(len(modes)), np.full(len(modes), end)
    for _ in range(3):
        grids = np.linspace(low, high, 129)
        curves = stairs.strengths(grids)
        own = np.arange(len(modes))
        passed = curves[:, own, own] >= 0.5 * limit
        after = np.maximum(passed.argmax(axis=0), 1)
        low, high = grids[after - 1, own], grids[after, own]
        if not passed.any(axis=0).all():
            return np.where(passed.any(axis=0), high, np.inf)
    return 0.5 * (low + high)


def _closed(stairs: ModeStaircase, times: np.ndarray) -> np.ndarray:
    """A(t) on white input; written so that neither 1e-300 nor e^{1000} leaves the range of numbers."""
    modes = stairs.modes
    a = 0.5 * (1 + stairs.slope)
    power = np.trace(stairs.dataset.covariance) / stairs.dataset.dim
    unit = modes.readouts / modes.norms[:, None]
    inverse = np.linalg.inv(unit @ unit.T)
    phase = modes.rates * times[..., None]
    grown = np.log(np.sqrt(a) * modes.norms) + phase
    # e^grown = small/late, one of them 1.
    small, late = np.exp(np.minimum(grown, 0.0)), np.exp(-np.maximum(grown, 0.0))
    held = power * -np.expm1(-2 * phase) / modes.strengths * small**2
    inner = late[..., :, None] * inverse * late[..., None, :] + held[..., None] * np.eye(len(modes))
    return small[..., :, None] * np.linalg.inv(inner) * small[..., None, :]


def _reduced(stairs: ModeStaircase, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, and X and Y of the twin at each time: shapes (width, modes), (times, modes, dim), (times, outputs, modes)."""
    modes, data = stairs.modes, stairs.dataset
    a = 0.5 * (1 + stairs.slope)
    beta, covariance = np.atleast_2d(data.correlation), data.covariance
    frame, triangle = np.linalg.qr((modes.readouts / modes.norms[:, None]).T)
    logs = np.log(np.sqrt(a) * modes.norms)
    # The early solution, until the first mode is about to be felt.
    power = max(np.trace(covariance) / data.dim, 1e-300)
    begin = max(0.0, float(((np.log(_EARLY * np.sqrt(modes.strengths / power)) - logs) / modes.strengths).min()))
    clock = a * times

    def early(moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        grown = triangle * np.exp(logs + modes.strengths * moment[..., None, None])
        return grown @ modes.inputs, modes.outputs.T @ np.swapaxes(grown, -1, -2)

    rows, columns = early(np.minimum(clock, begin))
    later = np.flatnonzero(clock > begin)
    if not later.size:
        return frame, rows, columns
    wanted, place = np.unique(clock[later], return_inverse=True)
    start = [part[0] for part in early(np.array([begin]))]
    count, split = len(modes), start[0].size
    # Every mode to its own figures.
    floor = [np.abs(start[0]).max(axis=1, keepdims=True) + 0 * start[0], np.abs(start[1]).max(axis=0) + 0 * start[1]]

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        x, y = state[:split].reshape(count, -1), state[split:].reshape(-1, count)
        rest = beta - y @ x @ covariance
        return np.concatenate([(y.T @ rest).ravel(), (rest @ x.T).ravel()])

    solution = solve_ivp(
        velocity, (begin, wanted[-1]), np.concatenate([part.ravel() for part in start]), "DOP853", wanted,
        rtol=_RTOL, atol=1e-3 * _RTOL * np.concatenate([part.ravel() for part in floor]) + 1e-300,
    )  # fmt: skip
    if not solution.success:
        raise ArithmeticError(f"the flow of the modes could not be integrated: {solution.message}")
    states = solution.y.T[place.ravel()]
    rows[later] = states[:, :split].reshape(len(later), count, -1)
    columns[later] = states[:, split:].reshape(len(later), -1, count)
    return frame, rows, columns
