"""The samples as the exact flow sees them: by line, or by their moments alone."""

import math
from typing import Any

import numpy as np

from biasfree.datasets import Dataset
from biasfree.dynamics._moments import Moments
from biasfree.dynamics.exact._decisions import ON_A_LINE
from biasfree.dynamics.exact._field import KINDS, Data, pulls
from biasfree.lines import Lines

UNFELT = 0.03  # part of rtol‖c‖ that a pull may be and not be felt


def grouped_data(grouped: Lines, dataset: Dataset, slope: float, settings: dict[str, Any]) -> Data:
    """The samples in order of lines."""
    loss = settings["loss"]
    order = np.argsort(grouped.member, kind="stable")
    order = order[np.searchsorted(grouped.member[order], 0) :]
    begin = np.searchsorted(grouped.member[order], np.arange(len(grouped) + 1)).astype(np.int64)
    position = np.ascontiguousarray(grouped.position[order])
    target = np.ascontiguousarray(dataset.targets[order], dtype=float)
    size = _moments(begin, np.abs(position), np.abs(target))[:, 3]
    noise = (settings["rtol"] if loss == "square" else 0.0) * size / dataset.samples
    at_origin = dataset.targets[grouped.member < 0]
    constant = {"square": 0.5 * at_origin**2, "logistic": np.full(len(at_origin), math.log(2))}
    return Data(
        np.ascontiguousarray(grouped.directions),
        np.ascontiguousarray(grouped.directions.T),
        begin,
        position,
        target,
        0.5 * (1 + slope),
        0.5 * (1 - slope),
        float(settings["weight_decay"]),
        KINDS[loss],
        settings["clock"] == "loss",
        _moments(begin, position, target),
        noise,
        settings["rtol"],
        float(dataset.samples),
        float(np.sum(constant.get(loss, np.ones(len(at_origin))))),
    )


def by_moments(dataset: Dataset, settings: dict[str, Any], a: float = 1.0) -> Data:
    """A linear network under square loss sees β and Σ alone: D samples with the same moments stand for all."""
    found = Moments.of(np.asarray(dataset.inputs), np.asarray(dataset.targets))
    dim = len(found.position)
    return Data(
        found.directions, np.ascontiguousarray(found.directions.T), np.arange(dim + 1),
        found.position, found.target, a, 0.0, float(settings["weight_decay"]), KINDS["square"], False,
        _moments(np.arange(dim + 1), found.position, found.target), np.zeros(dim), settings["rtol"], float(dim),
        0.5 * found.left,
    )  # fmt: skip


def outputs(neurons: np.ndarray, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """lin_l and even_l of neurons that do not slide, some thousand of them at a time."""
    lin, even = np.zeros((2, len(data.directions)))
    for part in _chunks(neurons, len(data.directions)):
        products = part[:, :-1] @ data.transposed
        lin += data.a * (part[:, -1] @ products)
        even += data.b * (part[:, -1] @ np.abs(products))
    return lin, even


def felt_lines(p: np.ndarray, q: np.ndarray, data: Data, rtol: float) -> np.ndarray:
    """The lines whose crossing matters: where q_l is more than a small part of what the tolerance lets pass."""
    count = len(data.directions)
    return np.flatnonzero(np.abs(q) > UNFELT * rtol * np.linalg.norm(p @ data.directions) / max(count, 1))


def keys_of_sides(neurons: np.ndarray, data: Data, rtol: float) -> np.ndarray:
    """A number for each pattern of sides, on the lines whose crossing matters by now.

    Neurons on either side of another line move alike. (While a network on symmetric data is small, that is so for all
    lines.) Sums of whole numbers are exact in any order.
    """
    p, q = np.empty((2, len(data.directions)))
    pulls(*outputs(neurons, data), data, p, q)
    matters = felt_lines(p, q, data, rtol)
    marks = np.random.default_rng(0).integers(1, 2**40, size=(2, len(matters))).astype(float)
    keys = []
    for part in _chunks(neurons, len(matters)):
        products = part[:, :-1] @ data.transposed[:, matters]
        near = np.abs(products) <= ON_A_LINE * np.linalg.norm(part[:, :-1], axis=1)[:, None]
        keys.append(((products > 0) & ~near) @ marks[0] + near @ marks[1])
    return np.concatenate(keys)


def _moments(begin: np.ndarray, position: np.ndarray, target: np.ndarray) -> np.ndarray:
    size = np.abs(position)
    terms = np.column_stack([position**2, position * size, position * target, size * target])
    return np.add.reduceat(terms, begin[:-1], axis=0) if len(begin) > 1 else np.zeros((0, 4))


def _chunks(neurons: np.ndarray, lines: int) -> list[np.ndarray]:
    return np.array_split(neurons, max(1, neurons.shape[0] * lines // 4_000_000))
