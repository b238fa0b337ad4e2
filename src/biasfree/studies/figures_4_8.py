"""Orthogonal inputs and XOR: without symmetry a network acts as several linear networks, learned one by one.

Figures 4 (square loss) and 8 (logistic loss) of the journal paper, and what Lyu et al.'s augmentation makes of XOR.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import biasfree as bf
from biasfree import measure, theory
from biasfree.studies._draws import Draw, descents, saved_network
from biasfree.studies._study import Expectation, Result, Study, at_least, at_most, near

WIDTH, SCALE, SAVES, SAMPLES = 60, 1e-6, 400, 8
LOSSES, RTOL = ("square", "logistic"), 1e-4
# The journal's rates, and four times these.
RATES, QUICK_RATES = {"square": 0.001, "logistic": 0.004}, {"square": 0.004, "logistic": 0.016}
# Well after the last step, for the square loss.
UNTIL = {"orthogonal inputs": 45.0, "XOR": 80.0, "XOR, augmented": 80.0}
# Where groups slide on each other's samples the simulation, not the prediction, is good to a few parts in a thousand.
TOLERANCE = {"orthogonal inputs": 1e-3, "XOR": 5e-3}


def _plain(name: str) -> bf.Dataset:
    return bf.datasets.orthogonal_pair() if name == "orthogonal inputs" else bf.datasets.xor()


def _data(name: str) -> bf.Dataset:
    """The set, samples repeated to eight: ⟨·⟩ is the same, and one shape is compiled for all."""
    plain = _plain(name)
    if name == "XOR, augmented":
        return plain.symmetrised()
    copies = SAMPLES // plain.samples
    return bf.Dataset(np.tile(plain.inputs, (copies, 1)), np.tile(plain.targets, copies), plain.name, plain.origin)


def _start(seed: int) -> bf.Network:
    return bf.Network.init([2, WIDTH, 1], 0.0, SCALE, seed)


def _until(name: str, loss: str) -> float:
    """At zero output the logistic loss pulls half as hard, so everything takes twice as long."""
    return UNTIL[name] * (2 if loss == "logistic" else 1)


@functools.cache
def _at_once(loss: str, seed: int) -> list[Draw]:
    """Descent on all sets side by side."""
    rate, sets = QUICK_RATES[loss], [_data(name) for name in UNTIL]
    steps = round(max(_until(name, loss) for name in UNTIL) / rate)
    return descents([_start(seed)] * len(sets), sets, loss=loss, learning_rate=rate, steps=steps, save=SAVES)


@functools.cache
def trained(name: str, loss: str, seed: int, quick: bool, protocol: str) -> bf.Trajectory | Draw:
    """A run at the journal's width, scale and, by descent, rates."""
    if quick:
        return _at_once(loss, seed)[tuple(UNTIL).index(name)]
    data, until, rate = _data(name), _until(name, loss), RATES[loss]
    if protocol == "paper":
        return bf.gradient_descent(
            _start(seed), data, loss=loss, learning_rate=rate, steps=round(until / rate), save=SAVES
        )
    return bf.gradient_flow(_start(seed), data, loss=loss, until=until, save=SAVES, rtol=RTOL)


# The predictor is an argument, so that one that was replaced is not answered from the cache.
@functools.cache
def _compared(
    predict: Callable[..., theory.Staircase], name: str, loss: str, seed: int, quick: bool, protocol: str
) -> tuple[dict[str, float], dict[str, Any]]:
    """The simulated curve beside that of several linear networks: numbers, and arrays for a picture."""
    flow, stairs = trained(name, loss, seed, quick, protocol), predict(_start(seed), _plain(name), loss)
    middle = 0.5 * (stairs.levels[1:] + stairs.levels[:-1])
    passed = np.interp(-middle, -flow.losses, flow.times)
    rate = QUICK_RATES[loss] if quick else RATES[loss] if protocol == "paper" else 0.0
    steps = stairs.times * _lags(stairs, rate)
    # The flow's times that descent's stand for.
    times = np.interp(flow.times, [0, *steps, 10 * steps[-1]], [0, *stairs.times, 10 * stairs.times[-1]])
    curve = stairs.losses(times)
    # Half way between two steps the samples learned so far are fitted and the others are not.
    pauses = [*(0.5 * (steps[1:] + steps[:-1])), flow.times[-1]]
    at = [int(np.argmin(np.abs(flow.times - t))) for t in pauses]
    networks = [saved_network(flow, k) for k in at]
    wanted = stairs.outputs(times[at])
    outputs = np.array([network(stairs.dataset.inputs) for network in networks])
    first, second = (w[-1] for w in flow.weights)
    size = np.linalg.norm(first, axis=1) * np.abs(second[0])
    cosines = first @ np.array([g.direction for g in stairs.groups]).T / np.linalg.norm(first, axis=1, keepdims=True)
    numbers = {
        "linear networks": float(stairs.linear_networks),
        "largest relative error of a step's time": float(np.abs(steps / passed - 1).max()),
        "largest error of the loss curve": float(np.abs(curve - flow.losses).max() / flow.losses[0]),
        "largest error of f on the samples": float(np.abs(outputs - wanted).max()),
        "weight within 1° of a predicted direction": float(
            size[cosines.max(axis=1) > np.cos(np.radians(1))].sum() / size.sum()
        ),
        "accuracy in the end": float(np.mean(np.sign(outputs[-1]) == stairs.dataset.targets)),
    }
    shown = (len(at) // 2 - 1, len(at) - 1)
    arrays = {
        "times": flow.times,
        "losses": flow.losses,
        "predicted": curve,
        "levels": stairs.levels,
        "step times": steps,
        "measured step times": passed,
        "inputs": stairs.dataset.inputs,
        "labels": stairs.dataset.targets,
        "map times": flow.times[[at[k] for k in shown]],
        "maps": [_map(networks[k], stairs.dataset.inputs) for k in shown],
        "neurons": [_neurons(networks[k]) for k in shown],
    }
    return numbers, arrays


def _lags(stairs: theory.Staircase, rate: float) -> np.ndarray:
    """By what factor descent is late for each step: it grows by 1 + ηρ a step instead of e^{ηρ}."""
    gain = rate * np.array([group.rate for group in stairs.groups])
    return gain / np.log1p(gain) if rate else np.ones(len(gain))


def _map(network: bf.Network, inputs: np.ndarray, points: int = 81) -> dict[str, Any]:
    """The output on a square around the samples."""
    half = 1.25 * float(np.abs(inputs).max())
    axis = np.linspace(-half, half, points)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return {"half width": half, "outputs": network(grid).reshape(points, points)}


def _neurons(network: bf.Network) -> np.ndarray:
    """Each neuron's incoming weights with the sign of its outgoing one, shape (width, 3)."""
    first, second = (np.asarray(w) for w in network.weights)
    return np.column_stack([first, np.sign(second[0])])


def _settings(seed: int, quick: bool, protocol: str) -> dict[str, Any]:
    how = {"rtol": RTOL} if protocol == "flow" and not quick else {"rates of descent": QUICK_RATES if quick else RATES}
    return {"width": WIDTH, "initial scale": SCALE, "slope": 0.0, "seed of the weights": seed, **how}


def _inputs_study(name: str, seed: int, quick: bool, protocol: str) -> Result:
    """Both losses on one set: the loss staircase and the neurons beside the prediction."""
    measured: dict[str, float] = {}
    expected: dict[str, Expectation] = {}
    data: dict[str, Any] = {}
    tolerance = TOLERANCE[name]
    for loss in LOSSES:
        numbers, data[loss] = _compared(theory.several_linear_networks, name, loss, seed, quick, protocol)
        measured |= {f"{loss}: {what}": number for what, number in numbers.items()}
        expected |= {
            f"{loss}: linear networks": near(len(data[loss]["inputs"])),
            f"{loss}: largest relative error of a step's time": at_most(tolerance, loosely=3 * tolerance),
            f"{loss}: largest error of the loss curve": at_most(2 * tolerance, loosely=6 * tolerance),
            f"{loss}: weight within 1° of a predicted direction": at_least(0.99, loosely=0.95),
            f"{loss}: accuracy in the end": near(1.0),
        }
    return Result(
        measured,
        expected,
        why="Neurons gather where G(r) = ⟨yσ(rᵀx)⟩ is extremal, one group for each sample here. A group's neurons are "
        "active on their own sample alone, so it learns as a linear network would on that sample, from the size that "
        "its neurons' early growth gives it; fast groups are learned first and the loss falls in steps. The logistic "
        "loss starts with half the pull: the same steps, at twice the times.",
        data=data,
        settings=_settings(seed, quick, protocol),
    )


def orthogonal_inputs(seed: int, quick: bool, protocol: str) -> Result:
    """Two orthogonal samples."""
    return _inputs_study("orthogonal inputs", seed, quick, protocol)


def xor_inputs(seed: int, quick: bool, protocol: str) -> Result:
    """Four samples on the axes."""
    return _inputs_study("XOR", seed, quick, protocol)


def _figure(loss: str, seed: int, quick: bool, protocol: str) -> Result:
    """Both sets with one loss, as the journal's figures show them: curves, output maps, neurons."""
    measured: dict[str, float] = {}
    expected: dict[str, Expectation] = {}
    data: dict[str, Any] = {}
    for name, tolerance in TOLERANCE.items():
        numbers, data[name] = _compared(theory.several_linear_networks, name, loss, seed, quick, protocol)
        chosen = ("largest relative error of a step's time", "largest error of f on the samples", "accuracy in the end")
        measured |= {f"{name}: {what}": numbers[what] for what in chosen}
        measured |= {f"{name}: step {k} at t": t for k, t in enumerate(data[name]["measured step times"].tolist(), 1)}
        expected |= {
            f"{name}: largest relative error of a step's time": at_most(tolerance, loosely=3 * tolerance),
            f"{name}: largest error of f on the samples": at_most(10 * tolerance, loosely=30 * tolerance),
            f"{name}: accuracy in the end": near(1.0),
        }
    return Result(
        measured,
        expected,
        why="Each step of the loss is one sample learned by one group of neurons, at the time its own linear network "
        "predicts; the others' outputs have not moved yet. In the end the decision boundaries part all labels, also "
        "those of XOR, which no linear map can.",
        data=data,
        settings=_settings(seed, quick, protocol),
    )


def figure_4(seed: int, quick: bool, protocol: str) -> Result:
    """Square loss."""
    return _figure("square", seed, quick, protocol)


def figure_8(seed: int, quick: bool, protocol: str) -> Result:
    """Logistic loss."""
    return _figure("logistic", seed, quick, protocol)


def _accuracy(answers: np.ndarray, targets: np.ndarray) -> float:
    return float(np.mean(np.sign(answers) == targets))


def _accuracy_of(run: bf.Trajectory | Draw) -> float:
    return _accuracy(saved_network(run, -1)(run.dataset.inputs), run.dataset.targets)


def _turned(seed: int) -> bf.Dataset:
    """XOR, each point turned by up to 0.3 rad, so that no two lie on one line through the origin."""
    plain = bf.datasets.xor()
    turn = np.exp(1j * np.random.default_rng(seed).uniform(-0.3, 0.3, plain.samples))
    moved = (plain.inputs @ [1, 1j]) * turn
    return bf.Dataset(np.column_stack([moved.real, moved.imag]), plain.targets, "XOR, turned")


def symmetrised_augmentation(seed: int, quick: bool, protocol: str) -> Result:
    """XOR with and without (−x, −y) for every (x, y): what training reaches, and what any width could."""
    before, after = (trained(name, "logistic", seed, quick, protocol) for name in ("XOR", "XOR, augmented"))
    best = {run.dataset.name: theory.best_possible_loss(run.dataset, loss="logistic") for run in (before, after)}
    plain, augmented = best.values()
    turned = _turned(seed).symmetrised()
    bounds = [
        theory.best_possible_loss(turned, depth, slope, "logistic").loss
        for depth, slope in ((2, 0.0), (2, 1.0), ("deep", 0.0))
    ]
    data, labels = after.dataset, after.dataset.targets
    return Result(
        measured={
            "Condition 3 before (1 = holds)": float(theory.symmetry(before.dataset).holds),
            "Condition 3 after": float(theory.symmetry(data).holds),
            "accuracy of the trained network before": _accuracy_of(before),
            "accuracy of the trained network after": _accuracy_of(after),
            "least loss of any width before": plain.loss,
            "accuracy of the best network of any width after": _accuracy(augmented.outputs, labels),
            "loss reached after ÷ least loss of any width": float(after.losses[-1] / augmented.loss),
            "distance of the trained network from linear after": measure.linearity(
                saved_network(after, -1), data.inputs
            ).error,
            "XOR turned: least loss of two layers ÷ of linear networks": bounds[0] / bounds[1],
            "XOR turned: least loss of three layers": bounds[2],
        },
        expected={
            "Condition 3 before (1 = holds)": near(0.0),
            "Condition 3 after": near(1.0),
            "accuracy of the trained network before": near(1.0),
            "accuracy of the trained network after": near(0.5),
            "least loss of any width before": at_most(0.0),
            "accuracy of the best network of any width after": near(0.5),
            "loss reached after ÷ least loss of any width": near(1.0, absolute=1e-3),
            "distance of the trained network from linear after": at_most(0.01, loosely=0.1),
            "XOR turned: least loss of two layers ÷ of linear networks": near(1.0, absolute=1e-6),
            "XOR turned: least loss of three layers": at_most(1e-9),
        },
        why="Adding (−x, −y) makes the target odd, and by Corollary 2 two layers can only answer an odd target "
        "linearly. For XOR that is a coin toss. With the points turned off each other's lines three layers could "
        "still learn the augmented set, two layers of whatever width could not.",
        data={
            "times": after.times,
            "before": before.losses,
            "after": after.losses,
            "bound": augmented.loss,
            "accuracies": [_accuracy_of(run) for run in (before, after)],
            "maps": [_map(saved_network(run, -1), data.inputs) for run in (before, after)],
            "inputs": [bf.datasets.xor().inputs, data.inputs],
            "labels": [bf.datasets.xor().targets, labels],
        },
        settings=_settings(seed, quick, protocol),
    )


_JOURNAL = "Zhang et al., journal version, Figure"
STUDIES = (
    Study(
        id="orthogonal-inputs",
        title="Orthogonal inputs: two linear networks",
        reference=f"{_JOURNAL}s 4 and 8",
        statement="On orthogonal inputs, with either loss, a two-layer ReLU network from small weights acts as several "
        "linear networks, each learned on its own sample at its own time.",
        formula="L(t) = ⟨ℓ(Σ_k f_k(x; t), y)⟩, each f_k a linear network's own course; growth rates |G(r_k)| = ‖x_k‖/2",
        run=orthogonal_inputs,
    ),
    Study(
        id="xor-inputs",
        title="XOR: four linear networks",
        reference=f"{_JOURNAL}s 4 and 8",
        statement="On XOR, which no linear network can learn, a two-layer ReLU network from small weights acts as four "
        "linear networks, each learned on its own sample at its own time.",
        formula="growth rates |G(r_k)| = ‖x_k‖/4 (square loss), half of it (logistic loss)",
        run=xor_inputs,
    ),
    Study(
        id="tmlr-figure-4",
        title="Staircases and output maps, square loss",
        reference=f"{_JOURNAL} 4",
        statement="With square loss the loss on orthogonal inputs falls in two steps and on XOR in four, and the "
        "output maps change by one sample at a time.",
        formula="step k near t = ln(1/γ)/|G(r_k)|",
        run=figure_4,
    ),
    Study(
        id="tmlr-figure-8",
        title="Staircases and output maps, logistic loss",
        reference=f"{_JOURNAL} 8",
        statement="With logistic loss the same happens at twice the times.",
        formula="step k near t = 2 ln(1/γ)/|G(r_k)|",
        run=figure_8,
    ),
    Study(
        id="symmetrised-augmentation",
        title="An augmentation that makes XOR unlearnable",
        reference="Zhang et al., Section 1.1, on the data augmentation of Lyu et al.",
        statement="Adding (−x, −y) for every sample (x, y) makes Condition 3 hold; a task that is not linearly "
        "separable and that the network could learn before can then no longer be learned.",
        formula="{(x, y)} → {(x, y), (−x, −y)}",
        run=symmetrised_augmentation,
    ),
)
