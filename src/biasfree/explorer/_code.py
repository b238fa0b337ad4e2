"""Python for a view: a program that computes what is shown, digit for digit.

``code`` gives the run and the curves beside it. What comes after a run (theory, plateaus, diagnosis) brings its own
lines with its answer, and the page the line of its time cursor; one after the other they are one program.
"""

from typing import Any

from biasfree.explorer._view import GENERATORS, View


def code(view: View, file_name: str | None = None, target: str | None = None) -> str:
    """The program; ``file_name`` and ``target`` are those of the server's own file."""
    lines = ["import biasfree as bf", "", f"data = {_data(view, file_name, target)}"]
    if view.mirrored:
        lines.append("data = data.symmetrised()")
    if view.ones:
        lines.append("data = data.with_ones()")
    widths = ", ".join(["data.dim", *[str(view.width)] * (view.depth - 1), "1"])
    start = f"slope={view.slope!r}, init_scale={view.scale!r}, seed={view.seed}"
    lines.append(f"start = bf.Network.init([{widths}], {start})")
    lines.append(f"run = {_run(view, 'start')}")
    if view.slope != 1:
        lines.append(f"linear = {_run(view, 'start.with_slope(1.0)')}")
    lines.extend(
        f"slope_{str(slope).replace('.', '_')} = {_run(view, f'start.with_slope({slope!r})')}"
        for slope in view.slopes
        if slope not in (view.slope, 1.0)
    )
    return "\n".join([*lines, "print(run)", ""])


def plateaus_code() -> str:
    """Where the run waits, and why."""
    return "for plateau in bf.plateaus(run):\n    print(plateau)"


def diagnose_code(view: View) -> str:
    """The sentence on this data and network."""
    arguments = diagnose_arguments(view)
    usual = diagnose_arguments(View())
    kept = {
        name: value
        for name, value in arguments.items()
        if name in ("loss", "seeds", "simulate") or value != usual[name]
    }
    given = ", ".join(f"{name}={value!r}" for name, value in kept.items())
    return f"print(bf.diagnose(data, {given}).headline)"


def diagnose_arguments(view: View) -> dict[str, Any]:
    """What ``diagnose`` is called with: the start that is shown; by theory alone for two layers."""
    return {
        "loss": view.loss, "slope": view.slope, "width": view.width, "depth": view.depth, "init_scale": view.scale,
        "seeds": 1, "first_seed": view.seed, "simulate": view.depth > 2,
    }  # fmt: skip


def _data(view: View, file_name: str | None, target: str | None) -> str:
    if view.data == "file":
        return f"bf.datasets.load({file_name!r}{f', {target!r}' if target else ''})"
    if view.data == "points":
        inputs = ", ".join(_row(row) for row in view.inputs)
        return f"bf.Dataset([{inputs}], {_row(view.targets)}, {view.name!r})"
    make, takes = GENERATORS[view.data]
    given = ", ".join(f"{name}={value!r}" for name, value in view.arguments(takes).items())
    return f"bf.datasets.{make.__name__}({given})"


def _run(view: View, start: str) -> str:
    decay = f", weight_decay={view.weight_decay!r}" if view.weight_decay else ""
    loss = f", loss={view.loss!r}" if view.loss != "square" else ""
    if view.method == "descent":
        return (
            f"bf.gradient_descent({start}, data{loss}, learning_rate={view.rate!r}, steps={view.steps}{decay}, "
            f"save={view.saves})"
        )
    rtol = f", rtol={view.rtol!r}" if view.rtol != 1e-6 else ""
    return f"bf.gradient_flow({start}, data{loss}, until={view.until!r}{rtol}{decay})"


def _row(values: tuple[float, ...]) -> str:
    return "[" + ", ".join(repr(value) for value in values) + "]"
