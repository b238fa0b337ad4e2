"""Low-rank weights of deep networks: Eqs. 39 and 40 at the papers' own size, and Figure 5 of the journal paper.

A linear and a ReLU network of three layers start from the same small weights and learn the same linear target.
"""

import functools
from dataclasses import dataclass

import numpy as np

import biasfree as bf
from biasfree import measure, theory
from biasfree.studies import _shared
from biasfree.studies._draws import saved_network
from biasfree.studies._study import Result, Study, at_least, at_most, near

DIM, PAIRS, WIDTH, SCALE, END = 20, 1000, 100, 1e-2, 2000.0
RATE = 0.1
# The papers show the weights when the loss has approached zero: a flow stops at this part of the first loss, where
# outputs are right to its root, 0.1 %.
APPROACHED = 1e-6
# A small network needs smaller weights to end as clean.
QUICK_SCALE = 3e-3
# Levels of the loss, as parts of the first, in the middle of its two steps.
LEVELS = np.array([0.75, 0.25])


@dataclass(frozen=True)
class Runs:
    """Both runs, and what is read off the ReLU network when its loss begins to fall.

    Attributes:
        linear, relu: the runs, from the same weights.
        begun: index of the first saved time at which the ReLU network has lost 1 % of its loss.
        predicted: both steps of its loss, predicted from its first weights.
    """

    linear: bf.Trajectory
    relu: bf.Trajectory
    begun: int
    predicted: theory.DeepStaircase

    @property
    def data(self) -> bf.Dataset:
        """What both were trained on."""
        return self.relu.dataset

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ and β."""
        return self.data.covariance, self.data.correlation

    @property
    def ends(self) -> tuple[bf.Network, bf.Network]:
        """The linear and the ReLU network after training."""
        return saved_network(self.linear, -1), saved_network(self.relu, -1)

    @property
    def settings(self) -> dict[str, object]:
        """What was run."""
        how = self.relu.settings
        method = f"descent at rate {RATE:g}" if how["method"] == "descent" else f"flow at rtol {how['rtol']:g}"
        return {
            "dim": self.data.dim,
            "samples": self.data.samples,
            "widths": self.relu.template.widths,
            "init scale": self.relu.template.origin["scale"],
            "until": f"t = {self.relu.times[-1]:.0f} (ReLU), {self.linear.times[-1]:.0f} (linear)",
            "method": method,
            "gradient evaluations": (self.linear.counts.evaluations, self.relu.counts.evaluations),
        }


@functools.cache
def runs(seed: int, quick: bool, protocol: str) -> Runs:
    """Train both networks for the papers' 20,000 steps, or until the loss has approached zero."""
    dim, pairs, width = (_shared.DIM, _shared.PAIRS, _shared.WIDTH) if quick else (DIM, PAIRS, WIDTH)
    data = bf.datasets.symmetric_gaussian(dim, pairs, "linear", seed=seed)
    start = bf.Network.init([dim, width, width, 1], 0.0, QUICK_SCALE if quick else SCALE, seed)
    paths = theory.sign_paths(start, data.correlation, "overlap")
    predicted = theory.deep_staircase(paths, data.covariance, data.correlation)
    # Small weights take their time: three times what it takes the second path to be learned is enough.
    end = 3 * float(predicted.times[1]) if quick else END

    def trained(network: bf.Network) -> bf.Trajectory:
        if protocol == "paper":
            steps, drops = round(end / RATE), round(1.2 * float(predicted.times[1]) / RATE)
            save = np.unique([*range(0, min(drops, steps), max(1, drops // 800)), steps])
            return bf.gradient_descent(network, data, learning_rate=RATE, steps=steps, save=save)
        method = "tsit5" if quick else "bosh3"
        first = float(np.mean(data.targets**2)) / 2
        return bf.gradient_flow(network, data, until=end, rtol=1e-5, method=method, stop=APPROACHED * first)

    relu = trained(start)
    begun = int(np.argmax(relu.losses < 0.99 * relu.losses[0]))
    return Runs(trained(start.with_slope(1.0)), relu, begun, predicted)


def equations(seed: int, quick: bool, protocol: str) -> Result:
    """Singular values, signs and fitted forms of the weights at the end."""
    these = runs(seed, quick, protocol)
    linear, relu = these.ends
    plain, rectified = measure.structure(linear).layers, measure.structure(relu).layers
    eq_39, eq_40 = measure.fit_eq_39(linear), measure.fit_eq_40(relu)
    fresh = np.random.default_rng([seed, 1]).normal(size=(500, these.data.dim))
    limits = [
        float(theory.deep_reduced_flow(np.inf, *these.moments, these.data.correlation, 1.0, 3, rectified=rule).norms)
        for rule in (False, True)
    ]
    return Result(
        {
            "linear, s₂/s₁ at most": float(max(plain[0].ratios[1], plain[1].ratios[1])),
            "linear, residual of Eq. 39": float(eq_39.residuals.max()),
            "linear, norm of a layer": float(eq_39.norm),
            "ReLU, s₂/s₁ of W₁": float(rectified[0].ratios[1]),
            "ReLU, s₂/s₁ of W₂": float(rectified[1].ratios[1]),
            "ReLU, s₃/s₁ of W₂": float(rectified[1].ratios[2]),
            "ReLU, negative mass of W₂": float(rectified[1].negative_mass),
            "ReLU, residual of Eq. 40": float(eq_40.residuals.max()),
            "ReLU, norm of a layer": float(eq_40.norm),
            "ReLU, distance from a linear map on new inputs": measure.linearity(relu, fresh).error,
            "ReLU, residual of Eq. 39": float(measure.fit_eq_39(relu).residuals.max()),
        },
        {
            "linear, s₂/s₁ at most": at_most(0.01),
            "linear, residual of Eq. 39": at_most(0.02),
            "linear, norm of a layer": near(limits[0], relative=1e-3),
            "ReLU, s₂/s₁ of W₁": at_most(0.01),
            "ReLU, s₂/s₁ of W₂": near(1.0, relative=0.02),
            "ReLU, s₃/s₁ of W₂": at_most(0.01),
            "ReLU, negative mass of W₂": at_most(0.01),
            "ReLU, residual of Eq. 40": at_most(0.02),
            "ReLU, norm of a layer": near(limits[1], relative=1e-3),
            "ReLU, distance from a linear map on new inputs": at_most(0.01),
            "ReLU, residual of Eq. 39": at_least(0.5),
        },
        why="What is left beside the low-rank form are the weights of the start, which hardly move: residuals are of "
        "the order of the initial scale. The last layer is a single row, of rank one by its shape. The ReLU network's "
        "middle layer has two equal singular values, one for each sign of rᵀx, and its layers are √2 times as large as "
        "the linear network's, since each half does all of the work on half of the data; Eq. 39 does not describe it.",
        settings=these.settings,
    )


def passing_times(times: np.ndarray, losses: np.ndarray, first: float) -> np.ndarray:
    """When a falling loss passes ``LEVELS`` of ``first``."""
    return np.interp(-LEVELS * first, -losses, times)


def figure(seed: int, quick: bool, protocol: str) -> Result:
    """Sorted weights of both networks, and the two steps of the ReLU network's loss beside their prediction."""
    these = runs(seed, quick, protocol)
    relu, moments = these.relu, these.moments
    ends = dict(zip(("linear", "ReLU"), these.ends, strict=True))
    fits = {"linear": measure.fit_eq_39(ends["linear"]), "ReLU": measure.fit_eq_40(ends["ReLU"])}
    read = relu.times[these.begun]
    paths = theory.sign_paths(saved_network(relu, these.begun), these.data.correlation)
    steps = theory.deep_staircase(paths, *moments)
    fine = np.linspace(0, float(steps.spans[1, 2]), 2000)
    curve = theory.two_path_flow(fine, *moments, paths).excess_losses
    first = float(relu.losses[0])
    measured = passing_times(relu.times[these.begun :], relu.losses[these.begun :], first) - read
    predicted = passing_times(fine, curve, first)
    # Of the end result keep only the neurons that answer to +r.
    positive = fits["ReLU"].neurons[0] > 0
    into, *onwards = ends["ReLU"].weights
    one_path = ends["ReLU"].with_weights([np.where(positive[:, None], into, 0), *onwards])
    rest = np.mean((these.data.targets - one_path(these.data.inputs)) ** 2) / 2
    middle = np.interp(read + np.mean(steps.times), relu.times, relu.losses)
    times = passing_times(relu.times, relu.losses, first)
    blocks = {name: [int((r > 0).sum()) for r in fit.neurons] for name, fit in fits.items()}
    return Result(
        {
            "loss with one path alone ÷ first loss": float(rest) / first,
            "times of the two drops, largest error": float(np.abs(measured / predicted - 1).max()),
            "norm of a layer, ReLU ÷ linear": float(fits["ReLU"].norm / fits["linear"].norm),
            "first drop": float(times[0]),
            "second drop": float(times[1]),
            "first drop, predicted from the start": float(these.predicted.times[0]),
            "second drop, predicted from the start": float(these.predicted.times[1]),
            "loss midway between the drops ÷ first loss": float(middle) / first,
            "predicted wait between the drops": steps.wait,
        },
        {
            "loss with one path alone ÷ first loss": near(float(steps.levels[1] / steps.levels[0]), relative=1e-3),
            # What is not yet aligned when 1 % of the loss is gone counts for a few per cent of a path's norm, and
            # times go like its inverse.
            "times of the two drops, largest error": at_most(0.05),
            "norm of a layer, ReLU ÷ linear": near(np.sqrt(2), relative=1e-3),
        },
        why="The neurons of positive and of negative r form two networks that see one half of the data each, and each "
        "is learned in its own time, as the flow of two aligned paths says; the times above are counted from when they "
        "were read off. With one of them the loss is exactly half. How long it waits there depends on the draw, "
        "through the difference of the two paths' first weights: from no visible plateau to a fifth of the whole time.",
        data={
            "weights": {name: sorted_by(network, fits[name]) for name, network in ends.items()},
            "blocks": blocks,
            "curves": {
                name: np.array([run.times, run.losses]) for name, run in (("linear", these.linear), ("ReLU", relu))
            },
            "predicted": np.array([read + fine, curve]),
            "predicted_at_start": these.predicted.times,
            "levels": steps.levels,
        },
        settings=these.settings,
    )


def sorted_by(network: bf.Network, fit: measure.LowRankFit) -> list[np.ndarray]:
    """The weights with hidden neurons in the order of r_l, positive ones first."""
    first, second = fit.orders
    into, middle, out = (np.asarray(w) for w in network.weights)
    return [into[first], middle[np.ix_(second, first)], out[:, second]]


STUDIES = (
    Study(
        id="eq-39-40",
        title="Low-rank weights of deep networks",
        reference="Zhang et al., Section 4.2 and Appendix F, Eqs. 39 and 40",
        statement="Trained on a linear target from small random weights, a deep linear network ends with rank-one "
        "layers that are aligned; a deep ReLU network on even inputs has the same first and last layers, and middle "
        "layers of rank two without negative weights, in two blocks.",
        formula="W₁ = u r₁rᵀ, W_l = u r_l r_{l−1}ᵀ, W_L = u r_{L−1}ᵀ; "
        "ReLU: W_l = √2 u [r_l⁺r_{l−1}⁺ᵀ, 0; 0, r_l⁻r_{l−1}⁻ᵀ]",
        run=equations,
    ),
    Study(
        id="tmlr-figure-5",
        title="Weights and loss of three-layer networks",
        reference="Zhang et al., Figure 5 of the journal paper (workshop Figure 3)",
        statement="The weights of a three-layer linear and ReLU network after training, sorted by sign, show one block "
        "structure. The ReLU network's loss falls in two steps, one for each sign of rᵀx; the text mentions one.",
        formula="L: ½⟨y²⟩ → ¼⟨y²⟩ → 0",
        run=figure,
        aliases=("workshop-figure-3",),
    ),
)
