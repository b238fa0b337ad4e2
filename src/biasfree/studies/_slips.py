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
    Slip(
        "Section 2, logistic loss",
        "⟨ln(1 + e^{yf})⟩",
        "⟨ln(1 + e^{−yf})⟩; the printed one rises in training",
        "theorem-5-logistic",
        "printed loss ⟨ln(1+e^{yf})⟩, end less start",
    ),
    Slip(
        "Eqs. 7, 10 and 37",
        "the output f in the numerator of the residual",
        "y/(1 + e^{yf}): the label",
        "theorem-5-logistic",
        "Eq. 7 as printed, relative error",
    ),
    Slip(
        "Appendix F, Eq. 42",
        "the full r_l r_{l−1}ᵀ for the middle layers; last product over l' = l−1 … L",
        "its two diagonal blocks only; l' = 1 … l−1",
        "eq-42",
        "printed, middle layers",
    ),
)


@dataclass(frozen=True)
class Choice:
    """What a reproducibility sheet asks for and the papers leave open, and what is taken here."""

    question: str
    taken: str


CHOICES = (
    Choice("Code", "none was published; this package is an independent implementation"),
    Choice("Hardware and software", "not given in the papers; those of this run are listed below"),
    Choice("Seeds", "not given; one whole number here, from which data and weights draw separate streams"),
    Choice(
        "Number of repetitions",
        "not given; where a result depends on the draw, several are run and their share reported",
    ),
    Choice("Precision", "not given; 64-bit floating point throughout"),
    Choice(
        "Training", "full batch; the flow itself by default, the papers' learning rates and epochs by --protocol paper"
    ),
    Choice("Epochs of Figures 3, 4, 6 and 8", "not given; until the loss has come to its end"),
    Choice("Labels of the two orthogonal points", "not given; −1 and +1 (the opposite signs give the same results)"),
    Choice(
        "Signs of the XOR and orthogonal points",
        "lost in the sheet; [0, 1], [2, 0], [0, −3], [−4, 0] and [−0.5, 1], [2, 1]",
    ),
    Choice("σ'(0)", "not given; σ'(0) = α, which Appendix F needs"),
    Choice("Splits into training and test data", "none: every statement is about the training loss"),
)
