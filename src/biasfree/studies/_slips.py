"""Slips in the printed papers, each with the study and the quantity that shows it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Slip:
    """Where a text is wrong, what is right, and which measured number of which study shows it."""

    where: str
    printed: str
    right: str
    study: str
    quantity: str


SLIPS = (
    Slip(
        "Lemma 9, Eq. 24a",
        "W₂ᵀW₂⟨σ(W₁x)σ'(W₁x)⟩",
        "⟨σ'(W₁x) ⊙ (W₂ᵀW₂σ(W₁x)) xᵀ⟩: a factor xᵀ, and W₂ᵀW₂ inside the average",
        "lemma-8-9",
        "Eq. 24a with W₂ᵀW₂ before the average",
    ),
    Slip(
        "Corollary 14, Eq. 38",
        "u₀ = ‖W₁(0)‖",
        "u₀ = √((α+1)/2) ‖W₁(0)‖, the linear twin's norm",
        "corollary-14",
        "largest difference with the printed u₀",
    ),
)
