"""From a list of operations to layers: what ONNX graphs and PyTorch modules are made of, one after the other."""

from typing import Any

import numpy as np

from biasfree import checks
from biasfree.models._model import Model


class Chain:
    """Collects the operations of a chain one after the other, and gives the model they are.

    Operations that are no layer of their own become one without changing the function: an activation or a bias that
    no matrix precedes is preceded by the identity.
    """

    def __init__(self) -> None:
        """An empty chain: the identity of unknown dimension."""
        self.weights: list[np.ndarray] = []
        self.biases: list[np.ndarray | None] = []
        self.slopes: list[float] = []
        self._first_slope: float | None = None
        self._shift: np.ndarray | None = None

    @property
    def width(self) -> int | None:
        """Numbers that leave the last operation, None while unknown."""
        if self.weights:
            return self.weights[-1].shape[0]
        return None if self._shift is None else len(self._shift)

    def matrix(self, weight: np.ndarray, bias: np.ndarray | None = None) -> None:
        """Apply W, then add b.

        Raises:
            ValueError: widths that do not chain.
        """
        if self.width is not None and weight.shape[1] != self.width:
            raise ValueError(
                f"widths must chain: layer {len(self.weights) + 1} takes {weight.shape[1]} numbers and is given "
                f"{self.width}."
            )
        if not self.weights and self._first_slope is not None:
            self._identity(weight.shape[1])
            self.slopes.append(self._first_slope)
        elif len(self.slopes) < len(self.weights):
            self.slopes.append(1.0)
        if self._shift is not None:
            bias = weight @ self._shift + (0.0 if bias is None else bias)
            self._shift = None
        self.weights.append(weight)
        self.biases.append(bias)

    def add(self, bias: np.ndarray) -> None:
        """Add a vector.

        Raises:
            ValueError: a vector of another length.
        """
        if self.width is not None and len(bias) != self.width:
            raise ValueError(f"a bias of {len(bias)} numbers is added to {self.width} neurons.")
        if self.weights and len(self.slopes) < len(self.weights):
            before = self.biases[-1]
            self.biases[-1] = bias if before is None else before + bias
        elif not self.weights and self._first_slope is not None:
            self._identity(len(bias))
            self.slopes.append(self._first_slope)
            self._shift = bias
        else:
            self._shift = bias if self._shift is None else self._shift + bias

    def activation(self, slope: float) -> None:
        """Apply σ of this slope."""
        slope = checks.slope(slope)
        if self._shift is not None:
            self.matrix(np.eye(len(self._shift)))
        if not self.weights:
            self._first_slope = slope * (1.0 if self._first_slope is None else self._first_slope)
        elif len(self.slopes) < len(self.weights):
            self.slopes.append(slope)
        else:
            # σ keeps signs, so slopes multiply.
            self.slopes[-1] *= slope

    def model(self, **about: Any) -> Model:
        """The model.

        Raises:
            ValueError: no layer, or what ``Model.of`` refuses.
        """
        notes = list(about.pop("notes", ()))
        if not self.weights:
            raise ValueError("there is no layer of weights in it.")
        if self._shift is not None or len(self.slopes) == len(self.weights):
            notes.append(
                "The last layer is followed by an activation or a bias of its own; this is read as one layer more."
            )
            self.matrix(np.eye(self.weights[-1].shape[0]))
        return Model.of(self.weights, self.biases, self.slopes, notes=notes, **about)

    def _identity(self, width: int) -> None:
        self.weights.append(np.eye(width))
        self.biases.append(None)
