"""Singular values, ranks, negative mass and alignment of the layers.

Deep networks started small end with layers of rank one (linear, Eq. 39) or of rank one and two (ReLU, Eq. 40), and the
last linear layers of a network trained on separable data become rank one and aligned (Le & Jegelka).
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks
from biasfree.measure._saved import Run, saved
from biasfree.networks import Network

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values s₁ ≥ s₂ ≥ … of a matrix, or of a stack of them. Ratios of a zero matrix are NaN.

    Attributes:
        name: what it is called, W2 say.
        singular_values: shape (*saved, min(out, in)).
        left: leading left singular vector u, shape (*saved, out).
        right: leading right singular vector v, shape (*saved, in).
        negative_mass: share of the Frobenius norm carried by negative entries, ‖min(W, 0)‖_F/‖W‖_F, shape (*saved,).
    """

    name: str
    singular_values: Float[np.ndarray, "*saved rank"]
    left: Float[np.ndarray, "*saved out"]
    right: Float[np.ndarray, "*saved in"]
    negative_mass: Float[np.ndarray, "*saved"]

    @cached_property
    def ratios(self) -> Float[np.ndarray, "*saved rank"]:
        """s_i/s₁: of order one even where squares of the weights would underflow."""
        return _divided(self.singular_values, self.singular_values[..., :1])

    @property
    def norm(self) -> Float[np.ndarray, "*saved"]:
        """‖W‖_F."""
        return np.linalg.norm(self.singular_values, axis=-1)

    @property
    def stable_rank(self) -> Float[np.ndarray, "*saved"]:
        """‖W‖_F²/‖W‖₂², between 1 and the rank."""
        return (self.ratios**2).sum(axis=-1)

    @property
    def spectral_share(self) -> Float[np.ndarray, "*saved"]:
        """‖W‖₂/‖W‖_F, 1 for a matrix of rank one."""
        return 1 / np.sqrt(self.stable_rank)

    def rank(self, tolerance: float = 0.01) -> Int[np.ndarray, "*saved"]:
        """Numerical rank: how many singular values exceed ``tolerance`` times the largest; 0 for a zero matrix.

        Raises:
            ValueError: a tolerance outside [0, 1).
        """
        if not 0 <= checks.non_negative(tolerance, "tolerance") < 1:
            raise ValueError(f"tolerance is relative to the largest singular value and below 1, got {tolerance!r}.")
        return (self.singular_values > tolerance * self.singular_values[..., :1]).sum(axis=-1)

    def residual(self, rank: int) -> Float[np.ndarray, "*saved"]:
        """‖W − W_k‖_F/‖W‖_F, W_k the best approximation of rank k."""
        beyond = self.ratios[..., checks.count(rank, "rank") :]
        return np.sqrt((beyond**2).sum(axis=-1) / self.stable_rank)

    def __str__(self) -> str:
        """One line, at the last saved time."""
        ratios = ", ".join(f"{ratio:.2g}" for ratio in _last(self.ratios, 1)[1:4])
        return (
            f"{self.name}: norm {_last(self.norm):.3g}, stable rank {_last(self.stable_rank):.3g}, "
            f"{f's₂/s₁ … {ratios}' if ratios else 'one singular value'}, negative mass {_last(self.negative_mass):.2g}"
        )

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Structure:
    """How every layer of a network, or of each saved network of a run, is built.

    Attributes:
        layers: spectra of W₁, …, W_L.
        blocks: spectra of M = I + W, by layer number, for layers with an identity skip around them alone.
        alignment: |⟨v_{k+1}, u_k⟩| of neighbouring layers, M in place of W where there is one; shape (*saved, L − 1).
            Where s₂ ≈ s₁, as in Eq. 40's middle layers, the leading vectors are arbitrary and so is this.
        times: saved times, or None for a single network.
    """

    layers: tuple[Spectrum, ...]
    blocks: dict[int, Spectrum]
    alignment: Float[np.ndarray, "*saved pairs"]
    times: Float[np.ndarray, "saved"] | None

    def to_xarray(self) -> "xr.Dataset":
        """As a labelled xarray Dataset over time, matrix (W1, …, I + W2, …) and pair; short spectra end in NaN."""
        import xarray as xr

        spectra = [*self.layers, *self.blocks.values()]
        saved = () if self.times is None else ("time",)
        most = max(s.singular_values.shape[-1] for s in spectra)
        padded = [
            np.pad(
                s.singular_values,
                [(0, 0)] * len(saved) + [(0, most - s.singular_values.shape[-1])],
                constant_values=np.nan,
            )
            for s in spectra
        ]
        measured: dict[str, list[Any]] = {
            "norm": [s.norm for s in spectra],
            "stable_rank": [s.stable_rank for s in spectra],
            "spectral_share": [s.spectral_share for s in spectra],
            "rank_one_residual": [s.residual(1) for s in spectra],
            "rank_two_residual": [s.residual(2) for s in spectra],
            "negative_mass": [s.negative_mass for s in spectra],
        }
        variables: dict = {name: ((*saved, "matrix"), np.stack(values, -1)) for name, values in measured.items()}
        variables["singular_value"] = ((*saved, "matrix", "index"), np.stack(padded, -2))
        variables["alignment"] = ((*saved, "pair"), self.alignment)
        coordinates: dict = {
            "matrix": [s.name for s in spectra],
            "index": np.arange(1, most + 1),
            "pair": [f"{k}-{k + 1}" for k in range(1, len(self.layers))],
        }
        if self.times is not None:
            coordinates["time"] = self.times
        return xr.Dataset(variables, coordinates)

    def __str__(self) -> str:
        """One line per matrix, at the last saved time."""
        when = "" if self.times is None else f" at t = {self.times[-1]:g}"
        rows = [f"Structure{when}"]
        rows += [f"  {each}" for each in (*self.layers, *self.blocks.values())]
        if len(self.layers) > 1:
            shown = ", ".join(f"{value:.4f}" for value in _last(self.alignment, 1))
            rows.append(f"  alignment of neighbours: {shown}")
        return "\n".join(rows)

    __repr__ = __str__


def structure(subject: Network | Run) -> Structure:
    """Singular values, ranks, negative mass and alignment of every layer (Section 4.2 and Appendix F; Le & Jegelka).

    Args:
        subject: a network, or a trajectory, whose saved times are then the first axis of every result.

    Raises:
        ValueError: anything else.

    >>> from biasfree import Network
    >>> result = structure(Network.aligned_relu([3, 6, 6, 1], init_scale=0.1, seed=0))
    >>> [int(layer.rank()) for layer in result.layers]
    [1, 2, 1]
    >>> float(result.layers[1].negative_mass)
    0.0
    """
    stack = saved(subject)
    layers = tuple(spectrum(weight, f"W{i}") for i, weight in enumerate(stack.weights, 1))
    blocks = {
        layer: spectrum(stack.acting(layer), f"I + W{layer}")
        for layer, span in enumerate(stack.template.skips, 1)
        if span == 1
    }
    acting = [blocks.get(layer, plain) for layer, plain in enumerate(layers, 1)]
    pairs = [np.abs((after.right * before.left).sum(-1)) for before, after in itertools.pairwise(acting)]
    alignment = np.stack(pairs, axis=-1) if pairs else np.zeros((*stack.weights[0].shape[:-2], 0))
    return Structure(layers, blocks, alignment, stack.times)


def spectrum(matrices: Float[Any, "*saved out in"], name: str = "W") -> Spectrum:
    """The spectrum of a matrix or a stack of them: of a block of weights, say.

    Args:
        matrices: shape (*saved, out, in).
        name: what the result calls it.

    Raises:
        ValueError: not a matrix, or entries that are not finite.

    >>> result = spectrum([[3.0, 0.0], [0.0, -4.0]])
    >>> result.singular_values, float(result.residual(1)), float(result.negative_mass)
    (array([4., 3.]), 0.6, 0.8)
    """
    matrices = checks.finite(checks.numeric(matrices, name), name)
    if matrices.ndim < 2 or not matrices.size:
        raise ValueError(f"{name} must be a matrix with at least one row and column, got shape {matrices.shape}.")
    left, values, right = np.linalg.svd(matrices, full_matrices=False)
    # Divided by the largest entry first, so that squares of tiny weights do not underflow.
    scaled = _divided(matrices, np.abs(matrices).max(axis=(-2, -1), keepdims=True))
    share = np.linalg.norm(np.minimum(scaled, 0), axis=(-2, -1)) / np.linalg.norm(scaled, axis=(-2, -1))
    # Copies: a view would keep all singular vectors of all saved times in memory.
    return Spectrum(name, values, left[..., :, 0].copy(), right[..., 0, :].copy(), share)


def _divided(numbers: np.ndarray, size: np.ndarray) -> np.ndarray:
    """numbers/size, NaN where size is 0."""
    return numbers / np.where(size > 0, size, np.nan)


def _last(values: np.ndarray, own: int = 0) -> Any:
    """The entry of the last saved time, of ``own`` axes."""
    return values if values.ndim == own else values[-1]
