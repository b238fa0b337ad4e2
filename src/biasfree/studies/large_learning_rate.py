"""Theorem 5 for descent: exact at rates η/a and η, approximate at equal rates, and late by a known factor."""

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._shared import DIM, WIDTH, small_set
from biasfree.studies._study import Result, Study, at_least, at_most, near
from biasfree.studies._twins import function_errors, weight_errors

NORM, STEPS = 0.1, 80
SCALE, RATES = 1e-8, (0.05, 0.2, 0.5)
# Parts of the largest stable rate of the linear network.
PARTS = (0.1, 0.5, 0.95)


def largest_rate(data: bf.Dataset) -> float:
    """2/λ_max of the linear network's Hessian at its end, where W₁ = v(ur)ᵀ, W₂ = uvᵀ and u²r = Σ⁻¹β."""
    w = theory.least_squares(data)
    frame = np.vstack([np.eye(data.dim), w / np.linalg.norm(w)])
    return float(2 / np.linalg.eigvalsh(np.linalg.norm(w) * frame @ data.covariance @ frame.T)[-1])


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Descent step by step from exact starts, and its lag behind the flow from a small random start."""
    data, slope = small_set(seed), 0.0
    start = bf.Network.rank_one(DIM, WIDTH, slope, NORM, seed)
    exact, equal = [], []
    saved = np.arange(STEPS + 1)
    parts = PARTS[-1:] if quick else PARTS
    for part in parts:
        rate = part * largest_rate(data) / theory.linear_time(1.0, slope)
        matched = theory.linear_learning_rate(rate, slope)
        network = bf.gradient_descent(start, data, learning_rate=rate, steps=STEPS, save=saved)
        twin = theory.linear_twin(start)
        linear = bf.gradient_descent(twin, data, learning_rate=matched, steps=STEPS, save=saved)
        # At one rate for both the twin needs (α+1)/2 as many steps.
        slower = bf.gradient_descent(start, data, learning_rate=matched, steps=2 * STEPS, save=2 * saved)
        if not all(run.status.complete for run in (network, linear, slower)):
            exact.append(np.inf)
            equal.append(np.inf)
            continue
        exact.append(max(function_errors(network, linear).max(), weight_errors(network, linear).max()))
        equal.append(float(function_errors(slower, linear).max()))
    small = bf.Network.init([DIM, WIDTH, 1], slope, SCALE, seed)
    lowest = float(theory.linear_loss(theory.least_squares(data), data))
    origin = theory.aligned_start(small, data)
    # Dense where the loss drops.
    times = theory.escape_time(origin.norm, origin.rate) * np.concatenate([[0], np.linspace(0.85, 1.6, 79), [3]])
    flow = bf.gradient_flow(small, data, until=times[-1], save=times, method="tsit5")
    half = 0.5 * (flow.losses[0] + lowest)
    reached = flow.time_of_loss(half)
    measured = {
        "rates η/a and η, largest difference of function or weights": max(exact),
        **{f"one rate for both, {part:g} of the largest stable": gap for part, gap in zip(parts, equal, strict=True)},
        "largest stable rate of the linear network": largest_rate(data),
    }
    expected = {
        "rates η/a and η, largest difference of function or weights": at_most(1e-12),
        f"one rate for both, {PARTS[-1]:g} of the largest stable": at_least(1e-3),
    }
    curves = {"flow": np.array([flow.times, flow.losses])}
    lags = {}
    for rate in RATES[1:] if quick else RATES:
        lag = theory.descent_lag(small, data, rate)
        steps = np.unique((times * lag / rate).astype(int))
        descent = bf.gradient_descent(small, data, learning_rate=rate, steps=int(steps[-1]), save=steps)
        measured[f"half-way time ÷ (the flow's × lag), η = {rate:g}"] = descent.time_of_loss(half) / (reached * lag)
        measured[f"lag ηas/ln(1+ηas), η = {rate:g}"] = lag
        measured[f"end above least squares, η = {rate:g}"] = float(descent.losses[-1]) - lowest
        # Descent's time is known to a step.
        expected[f"half-way time ÷ (the flow's × lag), η = {rate:g}"] = near(
            1.0, absolute=rate / (reached * lag), loosely=2
        )
        expected[f"end above least squares, η = {rate:g}"] = at_most(1e-6)
        curves[f"{rate:g}"], lags[f"{rate:g}"] = np.array([descent.times, descent.losses]), lag
    return Result(
        measured,
        expected,
        why="Descent at η/a follows its linear twin at η to rounding, at any stable rate, since one step of either is "
        "the same map of the rescaled weights. At one rate for both the collapse is approximate. Against the flow, "
        "each early step grows the weights by 1 + ηas instead of e^{ηas}: descent's clock runs slow by the factor "
        "ηas/ln(1+ηas), and ends at least squares all the same.",
        data={"curves": curves, "lags": lags, "half": half},
        settings={
            "dim": DIM, "samples": data.samples, "width": WIDTH, "slope": slope, "initial norm": NORM, "steps": STEPS,
            "init scale of the lag": SCALE, "rates of the lag": RATES,
        },
    )  # fmt: skip


STUDY = Study(
    id="large-learning-rate",
    title="Large learning rates",
    reference="Zhang et al., journal Appendix C.6",
    statement="With descent at a rate that is not small the equivalence holds exactly when the network's rate is "
    "2/(α+1) times its twin's, and approximately when the rates are equal.",
    formula="η = 2η_lin/(α+1);  t_descent = t_flow · ηas/ln(1 + ηas)",
    run=run,
)
