"""The peers: what one would write without biasfree, each in the layout (neurons × samples) that runs it fastest.

All in float64, all from the same weights. Beside the flow and the scan, a two-layer ReLU network with square loss.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torchdiffeq

from biasfree.datasets import Dataset

Weights = tuple[np.ndarray, ...]


class _TorchProblem:
    def __init__(self, data: Dataset, threads: int, slope: float = 0.0, loss: str = "square") -> None:
        torch.set_num_threads(threads)
        self._inputs = torch.tensor(data.inputs.T.copy())
        self._targets = torch.tensor(data.targets)
        leaky = partial(torch.nn.functional.leaky_relu, negative_slope=slope)
        self._activation = {0.0: torch.relu, 1.0: lambda z: z}.get(slope, leaky)
        self._square = loss == "square"

    def loss(self, *weights: torch.Tensor) -> torch.Tensor:
        signal = self._inputs
        for weight in weights[:-1]:
            signal = self._activation(weight @ signal)
        outputs = (weights[-1] @ signal)[0]
        if self._square:
            return 0.5 * torch.mean((self._targets - outputs) ** 2)
        return torch.mean(torch.nn.functional.softplus(-self._targets * outputs))


class TorchDescent(_TorchProblem):
    """A plain PyTorch loop: autograd, then W ← W − η∇L by hand."""

    def __init__(
        self, data: Dataset, start: Weights, rate: float, threads: int, slope: float = 0.0, loss: str = "square"
    ) -> None:
        super().__init__(data, threads, slope, loss)
        self._rate = rate
        self._weights = [torch.tensor(w).requires_grad_(True) for w in start]

    def advance(self, steps: int) -> None:
        """Take ``steps`` steps."""
        for _ in range(steps):
            self.loss(*self._weights).backward()
            with torch.no_grad():
                for weight in self._weights:
                    weight.sub_(weight.grad, alpha=self._rate)
                    weight.grad = None

    @property
    def weights(self) -> Weights:
        """Where it stands."""
        return tuple(w.detach().numpy().copy() for w in self._weights)


class JaxDescent:
    """A plain JAX loop: jax.grad in a jitted lax.scan."""

    def __init__(self, data: Dataset, start: Weights, rate: float) -> None:
        inputs, targets = jnp.asarray(data.inputs.T), jnp.asarray(data.targets)
        self._state = tuple(jnp.asarray(w) for w in start)

        def loss(weights: Any) -> Any:
            outputs = (weights[1] @ jax.nn.relu(weights[0] @ inputs))[0]
            return 0.5 * jnp.mean((targets - outputs) ** 2)

        def step(weights: Any, _: None) -> Any:
            return jax.tree.map(lambda w, g: w - rate * g, weights, jax.grad(loss)(weights)), None

        @partial(jax.jit, static_argnames="steps")
        def descend(weights: Any, steps: int) -> Any:
            return jax.lax.scan(step, weights, None, length=steps)[0]

        self._descend = descend

    def rehearse(self, steps: int) -> None:
        """Take ``steps`` steps and forget them."""
        jax.block_until_ready(self._descend(self._state, steps))

    def advance(self, steps: int) -> None:
        """Take ``steps`` steps."""
        self._state = jax.block_until_ready(self._descend(self._state, steps))

    @property
    def weights(self) -> Weights:
        """Where it stands."""
        return tuple(np.asarray(w) for w in self._state)


class TorchFlow(_TorchProblem):
    """torchdiffeq's dopri5 on autograd gradients; it judges errors entry by entry, against atol + rtol·|w|."""

    def __init__(self, data: Dataset, start: Weights, rtol: float, atol: float, threads: int) -> None:
        super().__init__(data, threads)
        self._start = tuple(torch.tensor(w) for w in start)
        self._rtol, self._atol = rtol, atol
        self.evaluations = 0

    def run(self, times: Sequence[float]) -> list[Weights]:
        """Integrate from 0 through ``times``; the weights at each. Times cost nothing: it interpolates."""
        self.evaluations = 0
        with torch.no_grad():
            layers = torchdiffeq.odeint(
                self._velocity,
                self._start,
                torch.tensor([0.0, *times], dtype=torch.float64),
                method="dopri5",
                rtol=self._rtol,
                atol=self._atol,
            )
        return [tuple(layer[i].numpy() for layer in layers) for i in range(1, len(times) + 1)]

    def _velocity(self, _: Any, weights: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        self.evaluations += 1
        with torch.enable_grad():
            leaves = [w.detach().requires_grad_(True) for w in weights]
            return tuple(-gradient for gradient in torch.autograd.grad(self.loss(*leaves), leaves))
