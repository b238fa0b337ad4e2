"""The operations that networks are made of; each acts on values whose first axis is that of the samples.

Shapes below leave the samples' axis out. An operation is *homogeneous* when op(cv) = c op(v) for c > 0 in all its
inputs together, *piecewise linear* when it is linear in cells of its input. What it adds whatever its input is, is its
*shift*.
How each is computed and differentiated is in ``_evaluate``.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float

# A field of numbers that may differ between networks of one structure.
_NUMBERS = {"numbers": True}
# One number per axis.
Sizes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Operation:
    """What every operation states about itself."""

    homogeneous: ClassVar[bool] = True
    piecewise_linear: ClassVar[bool] = True

    @property
    def shift(self) -> np.ndarray | None:
        """What is added whatever the input; None for nothing, or for zeros."""
        bias = getattr(self, "bias", None)
        return bias if bias is not None and np.any(bias) else None

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return type(self).__name__


@dataclass(frozen=True, eq=False)
class Linear(Operation):
    """Wx + b on the last axis.

    Attributes:
        weight: W, shape (outputs, inputs).
        bias: b, shape (outputs,), or None.
    """

    weight: Float[np.ndarray, "out in"] = field(metadata=_NUMBERS)
    bias: Float[np.ndarray, "out"] | None = field(metadata=_NUMBERS, default=None)


@dataclass(frozen=True, eq=False)
class Conv(Operation):
    """Cross-correlation over the last axes, or its transpose (``transposed``).

    Attributes:
        weight: shape (out, in/groups, *kernel); (in, out/groups, *kernel) when transposed, as ONNX and PyTorch have it.
        bias: shape (out,), or None.
        stride, dilation: one number per axis.
        padding: (before, after) per axis; negative ones crop.
        groups: groups of channels that do not see each other.
        transposed: whether it is the transpose, which makes images larger.
        extra: ``output_padding`` of the transpose.
    """

    weight: Float[np.ndarray, "out in *kernel"] = field(metadata=_NUMBERS)
    bias: Float[np.ndarray, "out"] | None = field(metadata=_NUMBERS, default=None)
    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1
    transposed: bool = False
    extra: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return f"Conv{'Transpose' * self.transposed}{self.weight.ndim - 2}d"

    @property
    def channels(self) -> tuple[int, int]:
        """(in, out)."""
        first, second = self.weight.shape[:2]
        return (first, second * self.groups) if self.transposed else (second * self.groups, first)


@dataclass(frozen=True, eq=False)
class Scale(Operation):
    """factor · v + bias, entry by entry; both broadcast to the value's shape. Batch normalisation in evaluation is one.

    Attributes:
        factor: of a shape that broadcasts.
        bias: of a shape that broadcasts, or None.
        normalisation: whether it comes from batch normalisation.
    """

    factor: np.ndarray = field(metadata=_NUMBERS)
    bias: np.ndarray | None = field(metadata=_NUMBERS, default=None)
    normalisation: bool = False

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return "BatchNorm" if self.normalisation else "Add" if np.all(self.factor == 1) else "Mul"


@dataclass(frozen=True, eq=False)
class Activation(Operation):
    """σ(z) = z where z > 0, else slope·z: ReLU, LeakyReLU and, with a slope per channel, PReLU.

    Attributes:
        slope: one number, or an array that broadcasts to the value's shape.
    """

    slope: np.ndarray = field(metadata=_NUMBERS, default_factory=lambda: np.zeros(()))

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return "ReLU" if not np.any(self.slope) else "LeakyReLU" if np.size(self.slope) == 1 else "PReLU"


@dataclass(frozen=True, eq=False)
class Sum(Operation):
    """Σ ±v over several values: skips.

    Attributes:
        signs: +1 or −1 for each.
    """

    signs: tuple[int, ...] = (1, 1)


@dataclass(frozen=True, eq=False)
class Concat(Operation):
    """Several values one after the other along an axis (0 is the first after the samples)."""

    axis: int = 0


@dataclass(frozen=True, eq=False)
class Pool(Operation):
    """The largest or the mean over windows of the last axes.

    Attributes:
        largest: the largest, or the mean.
        kernel, stride: one number per axis.
        padding: (before, after) per axis.
        count_padding: whether padded zeros count in the mean.
    """

    largest: bool = False
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    count_padding: bool = False

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return f"{'Max' if self.largest else 'Average'}Pool{len(self.kernel)}d"


@dataclass(frozen=True, eq=False)
class Reduce(Operation):
    """The mean, the sum or the largest over axes (0 is the first after the samples)."""

    kind: str = "mean"
    axes: tuple[int, ...] = ()
    keep: bool = True


@dataclass(frozen=True, eq=False)
class Reshape(Operation):
    """Another shape of the same entries; one −1 is worked out. Flatten is (−1,)."""

    shape: tuple[int, ...] = (-1,)


@dataclass(frozen=True, eq=False)
class Transpose(Operation):
    """Axes in another order (0 is the first after the samples)."""

    order: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Upsample(Operation):
    """Every entry repeated so often along the last axes: nearest-neighbour enlargement."""

    factors: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Pad(Operation):
    """Entries added around, zeros or reflected or repeated; one (before, after) per axis; negative widths crop."""

    widths: tuple[tuple[int, int], ...] = ()
    mode: str = "constant"


@dataclass(frozen=True, eq=False)
class Elementwise(Operation):
    """A smooth function of each entry, or of entries along an axis (Softmax): evaluated, never certified.

    Attributes:
        function: a key of ``_evaluate.FUNCTIONS``.
        axis: of Softmax.
    """

    function: str = "Tanh"
    axis: int = -1
    homogeneous: ClassVar[bool] = False
    piecewise_linear: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return self.function


@dataclass(frozen=True, eq=False)
class LayerNorm(Operation):
    """(v − mean)/√(variance + epsilon) over the last axes, times factor, plus bias."""

    factor: np.ndarray | None = field(metadata=_NUMBERS, default=None)
    bias: np.ndarray | None = field(metadata=_NUMBERS, default=None)
    axes: int = 1
    epsilon: float = 1e-5
    homogeneous: ClassVar[bool] = False
    piecewise_linear: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class Product(Operation):
    """Two values multiplied entry by entry: gates."""

    homogeneous: ClassVar[bool] = False
    piecewise_linear: ClassVar[bool] = False


ALL = (
    Linear, Conv, Scale, Activation, Sum, Concat, Pool, Reduce, Reshape, Transpose, Upsample, Pad, Elementwise,
    LayerNorm, Product,
)  # fmt: skip
