"""Appendix F.2: weights of Eq. 40's form keep it, and the whole flow reduces to two equations for u and r."""

import numpy as np

import biasfree as bf
from biasfree import measure, theory
from biasfree.studies._draws import saved_network
from biasfree.studies._shared import DIM, PAIRS, WIDTH, tight_flow
from biasfree.studies._study import Result, Study, at_least, at_most

NORM = 0.5
# In units of the time at which an aligned start has taken half off the loss.
COURSE = np.linspace(0, 6, 81)
PERTURBATION = 1e-3
# With a level to stop at, the flow does not look for its rest, by which a course this short gains nothing.
UNREACHED = bf.Stop(loss=1e-60)


def apart(run: bf.Trajectory, weights: tuple[np.ndarray, ...]) -> float:
    """Largest difference of a weight at any saved time."""
    return max(float(np.abs(a - b).max()) for a, b in zip(run.weights, weights, strict=True))


def perturbed(network: bf.Network, rng: np.random.Generator) -> bf.Network:
    """Each layer moved at random by ``PERTURBATION`` of its norm."""
    moves = [rng.normal(size=w.shape) for w in network.weights]
    return network.with_weights(
        [w + PERTURBATION * NORM * move / np.linalg.norm(move) for w, move in zip(network.weights, moves, strict=True)]
    )


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Tight flows of whole networks from exact starts beside the two equations, at several depths."""
    rng = np.random.default_rng(seed)
    data = bf.datasets.symmetric_gaussian(DIM, PAIRS, "linear", seed=seed)
    moments = data.covariance, data.correlation
    strength = float(np.linalg.norm(data.correlation))
    tilt = rng.normal(size=DIM)
    direction = data.correlation / strength + tilt / np.linalg.norm(tilt)
    gaps, uncorrected, forms, twins, curves = [], [], [], [], {}
    depths = (3,) if quick else (3, 4)
    for depth in depths:
        widths = [DIM, *[WIDTH] * (depth - 1), 1]
        times = theory.drop_time(depth, NORM, strength) * COURSE
        start = bf.Network.aligned_relu(widths, NORM, seed, direction)
        full = tight_flow(start, data, times, stop=UNREACHED)
        reduced = theory.deep_reduced_flow(times, *moments, direction, NORM, depth)
        gaps.append(apart(full, theory.deep_weights(reduced, start)))
        forms.append(float(measure.fit_eq_40(full).residuals.max()))
        # Smaller by √2, at half the time.
        linear = bf.Network.aligned_linear(widths, NORM / theory.weight_factor(0.0), seed, direction)
        twin = tight_flow(linear, data, theory.linear_time(times, 0.0), stop=UNREACHED)
        twins.append(difference(full, twin, data))
        uncorrected.append(difference(full, twin, data, late=2))
        curves[str(depth)] = {
            "times": times,
            "loss": np.array([full.losses, reduced.excess_losses]),
            "norm": np.array([np.linalg.norm(full.weights[0], axis=(1, 2)), reduced.norms]),
            "turned": np.array(
                [turned(measure.spectrum(full.weights[0]).right, data), turned(reduced.directions, data)]
            ),
        }
    start = bf.Network.aligned_relu([DIM, WIDTH, WIDTH, 1], NORM, seed, direction)
    times = theory.drop_time(3, NORM, strength) * COURSE
    # Beside the form there are kinks, which only a coarse solver passes quickly.
    course = bf.gradient_flow(
        perturbed(start, rng), data, until=times[-1], save=times, rtol=1e-5, method="tsit5", stop=UNREACHED
    )
    beside = measure.fit_eq_40(course).residuals.max(axis=-1)
    return Result(
        {
            "weights beside the two equations, largest difference": max(gaps),
            "residual of Eq. 40 on the way": max(forms),
            "beside the linear network at half the time, largest difference of outputs": max(twins),
            "beside the linear network at the same time, largest difference of outputs": min(uncorrected),
            "residual of Eq. 40 after a perturbation of 0.001, at the start": float(beside[0]),
            "residual of Eq. 40 after a perturbation of 0.001, at worst": float(beside.max()),
            "residual of Eq. 40 after a perturbation of 0.001, in the end": float(beside[-1]),
        },
        {
            # Ten times what a relative tolerance of 1e-10 in every step leaves room for.
            "weights beside the two equations, largest difference": at_most(1e-8),
            "residual of Eq. 40 on the way": at_most(1e-10),
            "beside the linear network at half the time, largest difference of outputs": at_most(1e-8),
            "beside the linear network at the same time, largest difference of outputs": at_least(0.1),
        },
        why="Whole network and reduced equations agree to the accuracy of the integration, although no part of the "
        "form is imposed: empty blocks stay empty since σ'(0) = 0. It also makes the ReLU network the linear one of "
        "Eq. 39 with weights smaller by √2 at half the pace, at every depth: what Theorem 5 says of two layers. A "
        "start that is a little beside the form stays about as near to it.",
        data={"curves": curves, "perturbed": np.array([course.times, beside])},
        settings={
            "dim": DIM, "samples": data.samples, "width": WIDTH, "depths": depths, "norm": NORM, "rtol": 1e-10,
        },
    )  # fmt: skip


def difference(run: bf.Trajectory, twin: bf.Trajectory, data: bf.Dataset, late: int = 1) -> float:
    """Largest difference of outputs at ten saved times, the twin's ``late`` times as late as ours."""
    pairs = [(saved_network(run, save), saved_network(twin, late * save)) for save in range(0, 40, 4)]
    return max(float(np.abs(a(data.inputs) - b(data.inputs)).max()) for a, b in pairs)


def turned(directions: np.ndarray, data: bf.Dataset) -> np.ndarray:
    """Cosine of the angle to least squares; of a singular vector either sign will do."""
    goal = theory.least_squares(data)
    return np.abs(directions @ goal) / np.linalg.norm(goal)


STUDY = Study(
    id="structure-persists",
    title="Low-rank weights stay low-rank",
    reference="Zhang et al., Appendix F.2, Eqs. 43–45",
    statement="Once the weights of a deep ReLU network have the form of Eq. 40 they keep it, on even inputs with a "
    "linear target; only the norm u of its layers and the direction r of the first one move.",
    formula="u̇ = (u/√2)^{L−1} (β − (u/√2)ᴸ Σr)ᵀr / √2,   d(u r)/dt = (u/√2)^{L−1} (β − (u/√2)ᴸ Σr) / √2",
    run=run,
)
