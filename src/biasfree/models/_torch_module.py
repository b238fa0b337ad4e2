"""A PyTorch module read without importing torch: by the class names and attributes of its layers.

The reading is then compared with the module's own outputs on random inputs, so that a ``forward`` that does something
else than its layers in their order is found out.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from biasfree.models._chain import Chain
from biasfree.models._model import Model

_CONTAINERS = ("Sequential", "ModuleList")
_MOST_DEPTH = 20
_PROBES = 32
_ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def is_module(subject: Any) -> bool:
    """Whether it looks like a ``torch.nn.Module``."""
    return callable(subject) and all(hasattr(subject, name) for name in ("named_children", "parameters", "training"))


def read_module(module: Any, slope: float | None) -> Model:
    """The model a module is.

    Raises:
        ValueError: a layer other than Linear, ReLU, LeakyReLU, Identity and Flatten, or a ``forward`` that does
            something else than these in their order.
    """
    name = type(module).__name__
    layers = list(_layers(module, name, 0))
    linear = [layer for layer in layers if _kind(layer) == "Linear"]
    if not linear:
        raise ValueError(f"cannot read the module {name}: there is no Linear layer in it.")
    rounding = max(_ROUNDING.get(str(layer.weight.dtype).removeprefix("torch."), 2.0**-24) for layer in linear)
    about = {"source": f"the PyTorch module {name}", "rounding": rounding}
    plain = len(linear) == sum(_kind(layer) not in ("Identity", "Flatten", "Dropout") for layer in layers)
    if plain and len(linear) > 1 and slope is not None:
        note = f"σ of slope {slope:g}, as asked for, is taken after every layer but the last."
        readings = [_chained(layers, slope).model(notes=[note], **about)]
    else:
        readings = [_chained(layers, None).model(**about)]
        if plain and len(linear) > 1:
            note = "It has Linear layers only; its outputs show that ReLU follows every one but the last."
            readings.append(_chained(layers, 0.0).model(notes=[note], **about))
    for reading in readings:
        if _agrees(module, linear[0], reading):
            return reading
    raise ValueError(
        f"cannot read the module {name}: its outputs are not those of its Linear, ReLU and LeakyReLU layers in their "
        "order. Write it as a torch.nn.Sequential, or export it to ONNX."
    )


def _layers(module: Any, path: str, depth: int) -> Iterator[Any]:
    kind = _kind(module)
    if kind in ("Linear", "ReLU", "LeakyReLU", "Identity", "Flatten"):
        yield module
        return
    if kind.startswith("Dropout"):
        if module.training and module.p:
            raise ValueError(f"{path} is a {kind} in training mode. Call module.eval() first.")
        return
    children = list(module.named_children())
    known = kind in _CONTAINERS or any(base.__name__ in _CONTAINERS for base in type(module).__mro__)
    own = dict(module.named_parameters(recurse=False))
    if depth > _MOST_DEPTH or own or not (children or known):
        raise ValueError(
            f"cannot read {path}: {kind} is not one of Linear, ReLU, LeakyReLU, Identity, Flatten, or a chain of them."
        )
    for name, child in children:
        yield from _layers(child, f"{path}.{name}", depth + 1)


def _chained(layers: list[Any], between: float | None) -> Chain:
    chain = Chain()
    for layer in layers:
        kind = _kind(layer)
        if kind == "Linear":
            if chain.weights and between is not None:
                chain.activation(between)
            bias = getattr(layer, "bias", None)
            chain.matrix(_array(layer.weight), None if bias is None else _array(bias))
        elif kind == "ReLU":
            chain.activation(0.0)
        elif kind == "LeakyReLU":
            chain.activation(float(layer.negative_slope))
    return chain


def _agrees(module: Any, first: Any, model: Model) -> bool:
    inputs = np.random.default_rng(0).normal(size=(_PROBES, model.widths[0]))
    given = first.weight.new_tensor(inputs.tolist())
    try:
        outputs = _array(module(given))
    except (RuntimeError, TypeError, IndexError) as error:
        raise ValueError(
            f"cannot run the module {type(module).__name__} on inputs of {model.widths[0]} numbers: "
            f"{(str(error).splitlines() or ['?'])[0]}"
        ) from error
    expected = model(_array(given))
    if outputs.size != expected.size:
        return False
    allowed = (
        1e3
        * model.rounding
        * (model.scale * np.abs(inputs).max() + sum(np.abs(b).sum() for b in model.biases if b is not None))
    )
    return bool(np.abs(outputs.reshape(expected.shape) - expected).max() <= max(allowed, 1e-300))


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().double().numpy())


def _kind(layer: Any) -> str:
    return type(layer).__name__
