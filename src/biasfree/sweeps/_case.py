"""One run: data, start and trajectory, each made when it is first asked for."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from biasfree import checks, theory
from biasfree.datasets import Dataset
from biasfree.dynamics import Trajectory, gradient_descent, gradient_flow
from biasfree.networks import Network
from biasfree.sweeps._arguments import STARTS, generator_arguments, generator_name, generators

DEPARTURE = 0.1  # of the way from the linear solution's loss to the least possible one: the plateau is left
_NOISE_STREAM = 2


class RunFailedError(ValueError):
    """A run whose status says that it cannot be used; its text is the status' sentence."""


class Case:
    """A run as quantities see it.

    Attributes:
        arguments: all arguments by name, generator's included.
        seed: of the weights.
        given: the data set, if it is none that a generator makes.
    """

    def __init__(self, arguments: Mapping[str, Any], seed: int, given: Dataset | None = None) -> None:
        """Nothing is computed yet."""
        self.arguments, self.seed, self.given = arguments, seed, given
        self._remembered: dict[str, float] = {}

    def remembered(self, name: str, compute: Callable[["Case"], float]) -> float:
        """What several quantities share, computed once."""
        if name not in self._remembered:
            self._remembered[name] = compute(self)
        return self._remembered[name]

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The data, with noise and mirror images if these are asked for."""
        seed = self.arguments["data_seed"]
        if seed == "run":
            seed = self.seed
        elif isinstance(seed, str):
            raise ValueError(f"data_seed must be a whole number, or 'run' for the run's own seed, got {seed!r}.")
        if self.given is not None:
            return _treated(self.given, self.arguments, seed)
        name = generator_name(self.arguments["data"])
        assert name is not None  # files were read when the sweep was planned
        settings = tuple((key, self.arguments[key]) for key in generator_arguments(name))
        return _treated(_generated(name, settings, seed), self.arguments, seed)

    @functools.cached_property
    def network(self) -> Network:
        """The start."""
        widths = [self.dataset.dim, *[self.arguments["width"]] * (self.arguments["depth"] - 1), self.dataset.outputs]
        slope, scale = self.arguments["slope"], self.arguments["init_scale"]
        start = checks.one_of(self.arguments["start"], STARTS, "start")
        if start == "rank_one":
            if self.arguments["depth"] != 2 or self.dataset.outputs != 1:
                raise ValueError("start 'rank_one' (Assumption 4) is of two layers and one output.")
            return Network.rank_one(widths[0], widths[1], slope=slope, init_scale=scale, seed=self.seed)
        make = Network.init if start == "init" else Network.balanced
        return make(widths, slope, scale, self.seed)

    @functools.cached_property
    def attempt(self) -> Trajectory:
        """The trajectory, whatever its status."""
        run = trained(self.network, self.dataset, self.arguments, self.stop)
        if run.status.name == "interrupted":
            raise KeyboardInterrupt
        return run

    @property
    def run(self) -> Trajectory:
        """The trajectory, if its status lets it be used.

        Raises:
            RunFailedError: cut short or not to be trusted.
        """
        if not self.attempt.status.complete:
            raise RunFailedError(f"{self.attempt.status.name}: {self.attempt.status.message}")
        return self.attempt

    @functools.cached_property
    def linear_loss(self) -> float:
        """The loss of the linear solution, that of the regularised problem where there is weight decay."""
        data, loss, decay = self.dataset, self.arguments["loss"], self.arguments["weight_decay"]
        if decay or loss != "square":
            weights = theory.regularised_limit(data, decay, self.arguments["slope"], loss)
        else:
            weights = theory.least_squares(data)
        return float(theory.linear_loss(weights, data, loss))

    @functools.cached_property
    def best_loss(self) -> float:
        """The least loss that any width can reach."""
        depth, slope, loss = (self.arguments[name] for name in ("depth", "slope", "loss"))
        return float(theory.best_possible_loss(self.dataset, depth, slope, loss).loss)

    @property
    def departure_level(self) -> float:
        """The loss below which the plateau of the linear solution is left; 0 where there is nothing to leave for."""
        if self.best_loss >= self.linear_loss * (1 - 1e-9):
            return 0.0
        return self.linear_loss - DEPARTURE * (self.linear_loss - self.best_loss)

    @property
    def stop(self) -> Any:
        """What ends the run before ``until``."""
        if self.arguments["stop"] == "departure":
            return self.departure_level or None
        return self.arguments["stop"]


def trained(network: Network, dataset: Dataset, arguments: Mapping[str, Any], stop: Any, **more: Any) -> Trajectory:
    """The flow, or descent at a learning rate, as the arguments say."""
    until, rate = arguments["until"], arguments["learning_rate"]
    shared = {"loss": arguments["loss"], "weight_decay": arguments["weight_decay"], **more}
    if rate is None:
        return gradient_flow(
            network, dataset, until=until, method=arguments["method"], rtol=arguments["rtol"],
            clock=arguments["clock"], stop=stop, max_steps=arguments["max_steps"], **shared,
        )  # fmt: skip
    if stop is not None or arguments["clock"] != "time" or arguments["max_steps"] is not None:
        raise ValueError("stop, clock and max_steps belong to the flow; leave learning_rate out.")
    if not math.isfinite(until):
        raise ValueError("descent needs a finite until.")
    steps = round(until / checks.positive(rate, "learning_rate"))
    return gradient_descent(network, dataset, learning_rate=rate, steps=steps, **shared)


@functools.lru_cache(maxsize=8)
def _generated(name: str, settings: tuple[tuple[str, Any], ...], seed: int) -> Dataset:
    generator = generators()[name]
    more = {"seed": seed} if "seed" in inspect.signature(generator).parameters else {}
    return generator(**dict(settings), **more)


def _treated(data: Dataset, arguments: Mapping[str, Any], seed: int) -> Dataset:
    noise = checks.non_negative(arguments["noise"], "noise")
    if noise:
        # A stream of its own: the same draw for every size of the noise.
        drawn = np.random.default_rng([seed, _NOISE_STREAM]).normal(size=data.targets.shape)
        data = Dataset(data.inputs, data.targets + noise * drawn, data.name, {**data.origin, "noise": noise})
    return data.symmetrised() if arguments["symmetrised"] else data
