"""The papers' data sets and their relatives.

A whole-number ``seed`` opens a stream of its own for data, apart from the one networks draw from, so that
``seed=0`` for both does not make the weights a copy of the inputs. A numpy ``Generator`` is used as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from biasfree import checks
from biasfree.datasets._dataset import Dataset

_DATA_STREAM = 1
_TARGETS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda projection: projection,
    "linear_plus_sine": lambda projection: projection + np.sin(4 * projection),
}


def symmetric_gaussian(
    dim: int = 20,
    pairs: int = 1000,
    target: str | Callable[[np.ndarray], np.ndarray] = "linear",
    whiten: bool = False,
    *,
    seed: int | Generator = 0,
) -> Dataset:
    """Gaussian samples x and −x with an odd target: Figures 1 and 3 of the workshop paper.

    ``"linear"`` is y = wᵀx and ``"linear_plus_sine"`` is y = wᵀx + sin(4wᵀx), w uniform in [−½, ½]ᵈⁱᵐ; drawn
    in the order inputs, w.

    Args:
        dim: input dimension.
        pairs: number of pairs (x, −x); the set has twice as many samples.
        target: a name above, or a function of the inputs (samples, dim) that returns the targets.
        whiten: transform the inputs so that Σ = I exactly, as Eq. 38 assumes.
        seed: whole number or numpy Generator.

    >>> data = symmetric_gaussian(dim=3, pairs=4, whiten=True, seed=0)
    >>> bool(np.allclose(data.covariance, np.eye(3)))
    True
    """
    dim, pairs = checks.count(dim, "dim"), checks.count(pairs, "pairs")
    if whiten and pairs < dim:
        raise ValueError(f"whitening {dim} dimensions needs at least {dim} pairs, got {pairs}.")
    rng = _stream(seed)
    half = rng.normal(size=(pairs, dim))
    teacher = rng.uniform(-0.5, 0.5, dim)
    if whiten:
        values, vectors = np.linalg.eigh(half.T @ half / pairs)
        half = half @ (vectors / np.sqrt(values)) @ vectors.T
    inputs = np.concatenate([half, -half])
    if callable(target):
        targets, label = target(inputs), getattr(target, "__name__", "callable")
    else:
        targets, label = _TARGETS[checks.one_of(target, _TARGETS, "target")](inputs @ teacher), target
    settings = {"dim": dim, "pairs": pairs, "target": label, "whiten": whiten}
    return Dataset(inputs, targets, "symmetric Gaussian", _origin("symmetric_gaussian", settings, seed))


def six_points(offset: float = 0.15) -> Dataset:
    """Six points in the plane, symmetric but for one moved up by ``offset``: Figure 2 of the workshop paper.

    >>> six_points().inputs[-1]
    array([1.  , 0.15])
    """
    inputs = [[1, 1], [-1, -1], [1, -1], [-1, 1], [-1, 0], [1, float(offset)]]
    return Dataset(inputs, [1, -1, 1, -1, 1, -1], "six points", _origin("six_points", {"offset": offset}))


def orthogonal_pair() -> Dataset:
    """Two orthogonal points of opposite labels: Figures 4 and 8 of the journal paper.

    >>> float(np.prod(orthogonal_pair().inputs, axis=0).sum())
    0.0
    """
    return Dataset([[-0.5, 1], [2, 1]], [-1, 1], "orthogonal pair", _origin("orthogonal_pair", {}))


def xor() -> Dataset:
    """Four points on the axes, labels +, −, +, −: Figures 4 and 8 of the journal paper.

    >>> xor().targets
    array([ 1., -1.,  1., -1.])
    """
    return Dataset([[0, 1], [2, 0], [0, -3], [-4, 0]], [1, -1, 1, -1], "XOR", _origin("xor", {}))


def depth_separation(pairs: int = 100, points: str = "gaussian", *, seed: int | Generator = 0) -> Dataset:
    """Eq. 3's odd, nonlinear, positively homogeneous function g on pairs ±x in the plane.

    g(x) = σ(σ(x₁) − σ(x₂)) − σ(σ(−x₁) − σ(−x₂)), σ the ReLU: three layers express it, two cannot.

    Args:
        pairs: number of pairs (x, −x).
        points: ``"gaussian"`` for a standard normal sample, ``"circle"`` for equally spaced unit vectors.
        seed: whole number or numpy Generator; the circle does not use it.

    >>> data = depth_separation(pairs=3, seed=0)
    >>> bool(np.array_equal(data.targets[:3], -data.targets[3:]))
    True
    """
    pairs = checks.count(pairs, "pairs")
    if checks.one_of(points, ("gaussian", "circle"), "arrangement of points") == "gaussian":
        half = _stream(seed).normal(size=(pairs, 2))
    else:
        angle = np.pi * (np.arange(pairs) + 0.5) / pairs
        half = np.column_stack([np.cos(angle), np.sin(angle)])
    inputs = np.concatenate([half, -half])

    def relu(z: np.ndarray) -> np.ndarray:
        return np.maximum(z, 0)

    first, second = inputs.T
    targets = relu(relu(first) - relu(second)) - relu(relu(-first) - relu(-second))
    settings = {"pairs": pairs, "points": points}
    return Dataset(inputs, targets, "depth separation", _origin("depth_separation", settings, seed))


def separable(
    dim: int = 2,
    samples: int = 100,
    margin: float = 0.1,
    symmetric: bool = False,
    *,
    seed: int | Generator = 0,
) -> Dataset:
    """Labels ±1 split by a hyperplane through the origin, every sample at least ``margin`` away from it.

    Gaussian inputs are moved outwards along the hyperplane's unit normal by ``margin``.

    Args:
        dim: input dimension.
        samples: number of samples drawn; a symmetric set has twice as many.
        margin: least distance to the hyperplane.
        symmetric: add (−x, −y) for every (x, y), so that Condition 3 holds.
        seed: whole number or numpy Generator.

    >>> separable(dim=2, samples=5, symmetric=True, seed=1).samples
    10
    """
    dim, samples = checks.count(dim, "dim"), checks.count(samples, "samples")
    margin = checks.non_negative(margin, "margin")
    rng = _stream(seed)
    inputs = rng.normal(size=(samples, dim))
    normal = rng.normal(size=dim)
    normal /= np.linalg.norm(normal)
    labels = np.where(inputs @ normal > 0, 1.0, -1.0)
    inputs += margin * np.outer(labels, normal)
    settings = {"dim": dim, "samples": samples, "margin": margin, "symmetric": symmetric}
    data = Dataset(inputs, labels, "separable", _origin("separable", settings, seed))
    return data.symmetrised() if symmetric else data


def digits(classes: Sequence[int] = tuple(range(10))) -> Dataset:
    """Scikit-learn's bundled 8 × 8 images of digits, grey values in [0, 1]: all ten classes, or some.

    Two classes have labels −1 and +1, the first −1; more are classes in the order given, one output each.

    >>> print(digits())
    digits: 1797 samples, 64 dimensions, 10 classes
    >>> print(digits((3, 8)))
    digits 3 and 8: 357 samples, 64 dimensions
    """
    from sklearn.datasets import load_digits

    chosen = [checks.count(c, "a class of digits", least=0) for c in classes]
    if len(chosen) < 2 or len(set(chosen)) < len(chosen) or max(chosen) > 9:
        raise ValueError(f"classes must be two different digits from 0 to 9, or more, got {classes!r}.")
    images, labels = load_digits(return_X_y=True)
    keep = np.isin(labels, chosen)
    inputs, labels, origin = images[keep] / 16, labels[keep], _origin("digits", {"classes": tuple(chosen)})
    if len(chosen) == 2:
        name = f"digits {chosen[0]} and {chosen[1]}"
        return Dataset(inputs, np.where(labels == chosen[1], 1.0, -1.0), name, origin)
    name = "digits" if chosen == list(range(10)) else f"digits {', '.join(map(str, chosen[:-1]))} and {chosen[-1]}"
    return Dataset(inputs, labels, name, origin, classes=chosen)


def iris() -> Dataset:
    """Fisher's iris flowers, scikit-learn's copy: four lengths in cm, three species.

    >>> print(iris(), iris().classes)
    iris: 150 samples, 4 dimensions, 3 classes ('setosa', 'versicolor', 'virginica')
    """
    from sklearn.datasets import load_iris

    bunch = load_iris()
    return Dataset(bunch.data, bunch.target, "iris", _origin("iris", {}), classes=list(bunch.target_names))


def wine() -> Dataset:
    """Wines of three growers, scikit-learn's copy: thirteen measurements, as they are, in units of their own.

    >>> print(wine())
    wine: 178 samples, 13 dimensions, 3 classes
    """
    from sklearn.datasets import load_wine

    bunch = load_wine()
    return Dataset(bunch.data, bunch.target, "wine", _origin("wine", {}), classes=list(bunch.target_names))


# What the command line can name, and how it is made from a seed.
BUILTIN: dict[str, Callable[[int], Dataset]] = {
    "symmetric-gaussian": lambda seed: symmetric_gaussian(seed=seed),
    "linear-plus-sine": lambda seed: symmetric_gaussian(target="linear_plus_sine", seed=seed),
    "six-points": lambda seed: six_points(),
    "orthogonal-pair": lambda seed: orthogonal_pair(),
    "xor": lambda seed: xor(),
    "depth-separation": lambda seed: depth_separation(seed=seed),
    "separable": lambda seed: separable(seed=seed),
    "digits": lambda seed: digits(),
    "iris": lambda seed: iris(),
    "wine": lambda seed: wine(),
}


def builtin(name: str, *, seed: int = 0) -> Dataset:
    """A data set by its command-line name, at its default settings.

    >>> print(builtin("six-points"))
    six points: 6 samples, 2 dimensions
    """
    return BUILTIN[checks.one_of(name.replace("_", "-"), BUILTIN, "data set")](seed)


def _stream(seed: int | Generator) -> Generator:
    checked = checks.seed(seed)
    if isinstance(checked, Generator):
        return checked
    return np.random.default_rng([checked, _DATA_STREAM])


def _origin(generator: str, settings: dict[str, Any], seed: int | Generator | None = None) -> dict[str, Any]:
    origin: dict[str, Any] = {"generator": generator, **settings}
    if seed is not None:
        origin["seed"] = checks.seed_name(seed)
    return origin
