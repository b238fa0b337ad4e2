"""``python -m bench.constants``: what the constants of the exact flow that were *chosen* are good for.

Each is halved and doubled, one after the other, and a set of runs is repeated. Printed are their cost, in units of what
they cost as it stands, and by how many rtol the last weights differ. A constant that matters to cost alone differs by
about one at most: both runs are right within the tolerance.
"""

import ast
import importlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import biasfree as bf
from biasfree.dynamics import exact

_RTOL = 1e-6
_ROUNDS = 2  # the least of so many
_FACTORS = (0.5, 2.0)


def chosen() -> Iterator[tuple[str, str]]:
    """Module and name of every constant of which the line, or the lines above, say that it was chosen."""
    for path in sorted(Path(str(exact.__file__)).parent.glob("_*.py")):
        text = path.read_text("utf-8")
        for node in ast.parse(text).body:
            if not isinstance(node, ast.Assign):
                continue
            lines = text.splitlines()
            first = node.lineno - 1
            while lines[first - 1].startswith("#"):
                first -= 1
            if re.search(r"#.*\bchosen\b", "\n".join(lines[first : node.end_lineno]), re.IGNORECASE | re.DOTALL):
                names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
                for name in names:
                    if isinstance(name, ast.Name):
                        yield f"{exact.__name__}.{path.stem}", name.id


def problems() -> list[tuple[bf.Network, bf.Dataset, dict[str, Any]]]:
    """Runs that cross, slide, merge, decay, come to rest, and begin small."""
    six, xor = bf.datasets.six_points(), bf.datasets.xor()
    rng = np.random.default_rng(7)
    generic = bf.Dataset(rng.standard_normal((40, 4)), rng.standard_normal(40))
    several = bf.Dataset(rng.standard_normal((12, 3)), rng.standard_normal((12, 2)))
    labels = bf.Dataset(generic.inputs, np.sign(generic.targets))
    three = bf.Dataset([[-0.75, 1.0], [-0.5, 1.0], [0.125, 1.0]], [1.1, 0.1, 0.8])
    return [
        (bf.Network.init([2, 100, 1], 0.0, 1e-3, 0), six, {"until": 300.0}),
        (bf.Network.init([2, 50, 1], 0.2, 1e-4, 1), xor, {"until": 100.0}),
        (bf.Network.init([2, 400, 1], 0.0, 1e-3, 2), three, {"until": 400.0}),
        (bf.Network.init([4, 10, 1], 0.0, 1e-3, 3), generic, {"until": 40.0}),
        (bf.Network.init([4, 20, 1], 0.1, 1e-1, 4), generic, {"until": 20.0, "weight_decay": 0.05}),
        (bf.Network.init([4, 15, 1], 0.0, 1e-2, 5), labels, {"until": 50.0, "loss": "logistic"}),
        (bf.Network.init([3, 15, 2], 0.0, 1e-2, 6), several, {"until": 50.0}),
        (bf.Network.init([4, 300, 1], 1.0, 1e-5, 7), generic, {"until": 1e4}),
    ]


def _run() -> tuple[float, list[np.ndarray]]:
    """Seconds, and the last weights of each problem."""
    best, last = np.inf, []
    for _ in range(_ROUNDS):
        began, last = time.process_time(), []
        for start, data, options in problems():
            flow = bf.gradient_flow(start, data, method="exact", rtol=_RTOL, **options)
            last.append(np.concatenate([np.ravel(layer[-1]) for layer in flow.weights]))
        best = min(best, time.process_time() - began)
    return best, last


def _holders(name: str, value: Any) -> list[Any]:
    """Modules that know the constant: its own, and those that import it."""
    loaded = [module for key, module in sys.modules.items() if key.startswith("biasfree.dynamics")]
    return [module for module in loaded if getattr(module, name, None) is value]


def _changed(value: Any, factor: float) -> Any:
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def main() -> None:
    """Measure and print."""
    console = Console(width=110)
    table = Table("constant", "is", *(f"× {f:g}: cost" for f in _FACTORS), *(f"× {f:g}: rtol off" for f in _FACTORS))
    _run()
    usual, reference = _run()
    for place, name in chosen():
        module = importlib.import_module(place)
        value = getattr(module, name)
        holders, row = _holders(name, value), []
        for factor in _FACTORS:
            for holder in holders:
                setattr(holder, name, _changed(value, factor))
            seconds, last = _run()
            off = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(last, reference, strict=True)) / _RTOL
            row.append((seconds / usual, off))
        for holder in holders:
            setattr(holder, name, value)
        costs, differences = zip(*row, strict=True)
        where = f"{place.rsplit('.')[-1]}.{name}"
        table.add_row(where, f"{value:g}", *(f"{c:.2f}" for c in costs), *(f"{d:.2g}" for d in differences))
    console.print(f"{usual:.2f} s as it stands, rtol {_RTOL:g}")
    console.print(table)


if __name__ == "__main__":
    main()
