"""Python for a view: a short program that computes what is shown, digit for digit."""

from biasfree.explorer._view import GENERATORS, View


def code(view: View, file_name: str | None = None, target: str | None = None) -> str:
    """The program; ``file_name`` and ``target`` are those of the server's own file."""
    lines = ["import biasfree as bf", "", f"data = {_data(view, file_name, target)}"]
    if view.mirrored:
        lines.append("data = data.symmetrised()")
    if view.ones:
        lines.append("data = data.with_ones()")
    widths = ", ".join(["data.dim", *[str(view.width)] * (view.depth - 1), "1"])
    lines.append(f"start = bf.Network.init([{widths}], slope={view.slope!r}, scale={view.scale!r}, seed={view.seed})")
    lines.append(f"run = {_run(view, 'start')}")
    if view.slope != 1:
        lines.append(f"linear = {_run(view, 'start.with_slope(1.0)')}")
    lines.extend(
        f"slope_{str(slope).replace('.', '_')} = {_run(view, f'start.with_slope({slope!r})')}"
        for slope in view.slopes
        if slope not in (view.slope, 1.0)
    )
    return "\n".join([*lines, "print(run)", ""])


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
