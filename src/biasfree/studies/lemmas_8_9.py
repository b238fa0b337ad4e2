"""Lemmas 8 and 9: the cubic terms of the flow are bounded by the weights' norms and Tr Σ."""

import numpy as np

from biasfree import Dataset, Network, theory
from biasfree.studies._study import Result, Study, at_least, at_most


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Both inequalities, and the one Eq. 24a needs, on random networks and data; how near they come to equality."""
    rng = np.random.default_rng(seed)
    draws = 30 if quick else 200
    ratios: dict[str, list[float]] = {"Lemma 8": [], "Lemma 9": [], "Eq. 24a": []}
    for _ in range(draws):
        dim, width, samples = rng.integers(1, 6, 3)
        # Heavy tails, all slopes: the lemmas ask nothing of the data.
        data = Dataset(rng.standard_cauchy((samples, dim)), rng.normal(size=samples))
        network = Network.init([dim, width, 1], rng.uniform(), 1.0, rng)
        for name, lemma in zip(ratios, (theory.lemma_8, theory.lemma_9, theory.equation_24a), strict=True):
            inequality = lemma(network, data)
            ratios[name].append(inequality.left / inequality.right)
    # One neuron along one sample: nothing is lost in the proofs' steps.
    single = Network([[[3.0, 4.0]], [[1.0]]], slope=0.0)
    aligned = Dataset([[0.6, 0.8]], [1.0])
    tight = [lemma(single, aligned) for lemma in (theory.lemma_8, theory.lemma_9)]
    measured = {f"{name}, largest left/right": float(np.max(values)) for name, values in ratios.items()}
    measured["gap of the tight case"] = float(max(abs(i.left / i.right - 1) for i in tight))
    expected = {name: at_most(1 + 1e-12) for name in measured}
    measured["Eq. 24a with W₂ᵀW₂ before the average"] = _printed_error(rng)
    expected["Eq. 24a with W₂ᵀW₂ before the average"] = at_least(0.1)
    expected["gap of the tight case"] = at_most(1e-12)
    return Result(
        measured,
        expected,
        f"Never violated in {draws} random cases with heavy-tailed inputs, and met with equality by one neuron that "
        "points along one sample, so the constants cannot be improved. Lemma 9 is printed without the factor xᵀ that "
        "its use in Eq. 24a needs, and there W₂ᵀW₂ cannot stand before the average: σ' belongs to the row, not to the "
        "sum. The bound holds all the same.",
        {"ratios": {name: np.array(values) for name, values in ratios.items()}},
        {"random cases": draws, "dim, width, samples": "1 to 5"},
    )


def _printed_error(rng: np.random.Generator) -> float:
    """How far W₂ᵀW₂⟨[σ(W₁x) ⊙ σ'(W₁x)]xᵀ⟩ is from ⟨σ'(W₁x) ⊙ (W₂ᵀW₂σ(W₁x))xᵀ⟩, relative, for a random ReLU network."""
    first, second, inputs = rng.normal(size=(5, 3)), rng.normal(size=(1, 5)), rng.normal(size=(40, 3))
    entering = inputs @ first.T
    active, leaving = entering > 0, np.maximum(entering, 0)
    right = (active * (leaving @ second.T @ second)).T @ inputs / 40
    printed = second.T @ second @ (active * leaving).T @ inputs / 40
    return float(np.linalg.norm(printed - right) / np.linalg.norm(right))


STUDY = Study(
    id="lemma-8-9",
    title="Bounds on the cubic terms",
    reference="Zhang et al., Lemmas 8 and 9",
    statement="The terms of the flow that are cubic in the weights are no larger than the weights' norms and the trace "
    "of the input covariance allow, for any data and any slope.",
    formula="‖⟨σ(W₁x)σ(W₁x)ᵀ⟩‖ ≤ ‖W₁‖² Tr Σ,   ‖⟨[σ'(W₁x) ⊙ σ(W₁x)]xᵀ⟩‖ ≤ ‖W₁‖ Tr Σ",
    run=run,
)
