"""How fast the last linear layers tend to rank one, and what it would take to get there.

Where all skips span one layer, a network is homogeneous of degree L, its depth, in the matrices A_k that its layers
apply: W_k, or I + W_k with a skip. In the end ln 1/L is about a margin times ‖A‖^L, all ‖A_k‖_F² of linear layers
differ by constants, and ‖A_k‖_F² − ‖A_k‖₂² tends to a constant, which is below Ji & Telgarsky's D. So

    ‖A_k‖_F² ≈ a (ln 1/L)^{2/L} + b,   1 − ‖A_k‖₂/‖A_k‖_F ≈ (‖A_k‖_F² − ‖A_k‖₂²)/(2‖A_k‖_F²) ~ (ln 1/L)^{−2/L}:

the deeper, the slower. Only a and b are fitted.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from biasfree import checks
from biasfree.measure._rank_excess import excess, shortfall
from biasfree.measure._structure import Spectrum

# Shorter runs are not yet where ln 1/L grows as a power of the weights.
_DEEP = math.log(1e-10)
_FEWEST = 5


@dataclass(frozen=True)
class Approach:
    """How one linear layer tends to rank one: ‖A‖_F² = a (ln 1/L)^{2/L} + b while ‖A‖_F² − ‖A‖₂² stays as it is.

    Attributes:
        exponent: 2/L, that of 1 − ‖A‖₂/‖A‖_F ~ (ln 1/L)^{−2/L} in the limit.
        measured_exponent: the same, measured on the tail of the run; NaN for a matrix of rank one.
        growth, offset: a and b, fitted to the tail.
        misfit: largest relative error of the fitted ‖A‖_F² on the tail.
        excess: ‖A‖_F² − ‖A‖₂² at the end of the run.
    """

    exponent: float
    measured_exponent: float
    growth: float
    offset: float
    misfit: float
    excess: float

    def share(self, log_loss: Float[np.ndarray, "*losses"] | float) -> Float[np.ndarray, "*losses"]:
        """‖A‖₂/‖A‖_F expected at ln L; NaN where the loss is too large for the law.

        >>> law = Approach(exponent=0.5, measured_exponent=0.5, growth=2.0, offset=0.0, misfit=0.0, excess=3.0)
        >>> float(law.share(-4.0))  # ‖A‖_F² = 4
        0.5
        """
        distance = checks.numeric(-np.asarray(log_loss), "log_loss")
        squared_norm = self.growth * np.maximum(distance, 0) ** self.exponent + self.offset
        valid = (distance > 0) & (squared_norm >= self.excess) & (squared_norm > 0)
        return np.sqrt(1 - self.excess / np.where(valid, squared_norm, np.nan))

    def log_loss_at(self, share: float) -> float:
        """The ln L at which ‖A‖₂/‖A‖_F passes ``share``; −inf where the norm does not grow.

        Raises:
            ValueError: a share outside [0, 1).

        >>> law = Approach(exponent=0.5, measured_exponent=0.5, growth=2.0, offset=0.0, misfit=0.0, excess=3.0)
        >>> law.log_loss_at(0.5)
        -4.0
        """
        if not checks.non_negative(share, "share") < 1:
            raise ValueError(f"share must be below 1, which no finite loss gives, got {share!r}.")
        if self.growth <= 0:
            return -math.inf
        power = (self.excess / (1 - share**2) - self.offset) / self.growth
        return -(max(power, 0.0) ** (1 / self.exponent))

    def __str__(self) -> str:
        """One line."""
        return (
            f"1 − ‖A‖₂/‖A‖_F falls like (ln 1/L)^−{self.measured_exponent:.2f}, in the limit "
            f"(ln 1/L)^−{self.exponent:.2g}; ‖A‖₂/‖A‖_F = 0.99 at L = {power_of_ten(self.log_loss_at(0.99))}"
        )


def approach(
    spectrum: Spectrum, log_losses: Float[np.ndarray, "saved"], tail: Bool[np.ndarray, "saved"], degree: int
) -> Approach | None:
    """Fit the law to the tail of a run; None if that is too short: fewer than 5 saved times, or no loss below 1e-10.

    Args:
        spectrum: of A, along the run.
        log_losses: ln L.
        tail: the saved times to fit to, all with L < 1.
        degree: of the network as a function of its matrices.
    """
    if tail.sum() < _FEWEST or log_losses[-1] > _DEEP:
        return None
    exponent, distance = 2 / degree, -log_losses[tail]
    # Every part of the tail counts by its length in ln ln 1/L, however many times were saved there.
    weight = np.sqrt(np.abs(np.gradient(np.log(distance))))
    squared_norm, gaps = spectrum.norm[tail] ** 2, shortfall(spectrum)[tail]
    growth, offset = np.polyfit(distance**exponent, squared_norm, 1, w=weight)
    misfit = np.abs(growth * distance**exponent + offset - squared_norm) / squared_norm
    measured = -np.polyfit(np.log(distance), np.log(gaps), 1, w=weight)[0] if gaps.all() else math.nan
    return Approach(
        exponent, float(measured), float(growth), float(offset), float(misfit.max()), float(excess(spectrum)[-1])
    )


def power_of_ten(log_value: float) -> str:
    """e^{log_value} in words that hold where a number would underflow."""
    exponent = log_value / math.log(10)
    if exponent > -4:
        return f"{math.exp(log_value):.2g}"
    return f"10^{exponent:.0f}" if math.isfinite(exponent) else "0"
