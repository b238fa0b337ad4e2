"""What was measured, as tables for a reader, and what was expected of it."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

LEAST_DESCENT, LEAST_FLOW = 1.5, 40.0
LEAST_PAPER = 10.0
LEAST_EXACT = {"Figure 3": 1000.0, "XOR": 300.0, "six points": 200.0}  # by the beginning of a run's name
MOST_FIRST_CALL = {"nothing_kept": 10.0, "kept": 1.5}  # seconds of CPU
MOST_REPORT = {"nothing_kept": 75.0, "kept": 30.0}  # seconds
MOST_POWER = 1.0  # of the width that the cost may grow by
MOST_EXACT_GROWTH = {"width": 50.0, "scale": 1.5}
MOST_MEMORY = 1e9
MOST_IMPORT = {"import": 2.0, "help": 3.0}  # times numpy's
LEAST_OUTPUTS = {"digits": 5.0, "symmetric": 300.0}  # times PyTorch descent
LEAST_TWO_WORKERS, MOST_OVERHEAD, MOST_SWEEP_MEMORY = 1.7, 0.10, 500e6
MOST_PLANNING, MOST_FILES = 10.0, 10_000  # of a million cells
# The explorer: milliseconds of a move, how much faster than descent, bytes of an answer, frames a second.
MOST_MOVE, LEAST_MOVE, MOST_BYTES, LEAST_FRAMES = 300.0, 50.0, 1e6, 30.0
# A million rows diagnosed: seconds and bytes; a local map with its spectrum: seconds, and times a loop over pixels.
MOST_TABLE, MOST_TABLE_MEMORY, MOST_SPECTRUM, LEAST_LOCAL_MAP = 60.0, 2e9, 60.0, 20.0
MOST_GROWTH, NOISE = 2.0, 1.1  # "about 2": a tenth is left to noise


@dataclass(frozen=True)
class Expectation:
    """One promise, what it came to, and whether it was kept."""

    what: str
    expected: str
    measured: str
    met: bool


def expectations(results: dict[str, Any]) -> list[Expectation]:
    """All promises that this run can judge. Ratios are judged without compilation."""
    found = []
    if "figure3" in results:
        descent, flow = (
            next(r for r in results["figure3"]["ratios"] if (r["ours"], r["peer"]) == (ours, "PyTorch loop"))
            for ours in ("biasfree descent", "biasfree flow")
        )
        found.append(_ratio("descent faster than PyTorch, per step", descent, LEAST_DESCENT))
        found.append(_ratio("flow faster than PyTorch, whole run", flow, LEAST_FLOW))
        peak = results["memory"]["peak_bytes"]
        found.append(Expectation("flow: peak memory", "below 1 GB", f"{peak / 1e9:.2f} GB", peak < MOST_MEMORY))
    if "exact" in results:
        found += _exact_expectations(results["exact"])
    for kept, seconds in results.get("report", {}).get("seconds", {}).items():
        found.append(_at_most(f"make report, {_words(kept)}", MOST_REPORT[kept], seconds, " s"))
    if "paper" in results:
        ratio = results["paper"]["ratio"]
        measured = f"{ratio:.1f}× (compilation and pictures included; the peer extrapolated)"
        found.append(
            Expectation(
                "the papers' figures, faster than PyTorch", f"at least {LEAST_PAPER:g}×", measured, ratio >= LEAST_PAPER
            )
        )
    for case, told in results.get("explorer", {}).get("cases", {}).items():
        found.append(_at_most(f"explorer: {case}, a slider's move, median", MOST_MOVE, told["median_ms"], " ms"))
        ratio = f"{told['ratio']:.0f}×, the peer extrapolated"
        met = told["ratio"] >= LEAST_MOVE
        found.append(Expectation(f"explorer: {case}, beside descent", f"at least {LEAST_MOVE:g}×", ratio, met))
        found.append(_at_most(f"explorer: {case}, bytes of an answer", MOST_BYTES, told["bytes"]))
        frames = told["frames_per_second"]
        expected = f"at least {LEAST_FRAMES:g}"
        found.append(
            Expectation(f"explorer: {case}, frames a second", expected, f"{frames:.0f}", frames >= LEAST_FRAMES)
        )
    for case, told in results.get("outputs", {}).items():
        least = LEAST_OUTPUTS[case]
        measured, met = f"{told['ratio']:.2f}×, by {told['method']}{_both_ways(told)}", told["ratio"] >= least
        found.append(Expectation(f"several outputs: {case}, beside descent", f"at least {least:g}×", measured, met))
    if "imports" in results:
        for what, most in MOST_IMPORT.items():
            name = {"import": "import biasfree", "help": "biasfree --help"}[what]
            found.append(_at_most(f"{name}, beside import numpy", most, results["imports"][what], "×"))
    for axis, grown in results.get("growth", {}).get("axes", {}).items():
        worst = max(grown["factors"])
        met = worst <= MOST_GROWTH * NOISE
        found.append(Expectation(f"cost when {axis} double{_s(axis)}", "at most about 2", f"{worst:.2f}", met))
    if "answers" in results:
        found += _answer_expectations(results["answers"])
    if "sweeps" in results:
        found += _sweep_expectations(results["sweeps"])
    return found


def _answer_expectations(measured: dict[str, Any]) -> list[Expectation]:
    table, local = measured["table"], measured["local_map"]
    size = f"{local['size']}×{local['size']}"
    return [
        _at_most(f"diagnose: {table['rows']:,} × {table['columns']}", MOST_TABLE, table["seconds"], " s"),
        _at_most("diagnose: its peak memory, GB", MOST_TABLE_MEMORY / 1e9, table["peak_bytes"] / 1e9),
        *(
            Expectation(
                f"inspect: A_x at {size}, {name}, beside autograd pixel by pixel ({clock} time)",
                f"at least {LEAST_LOCAL_MAP:g}×",
                f"{ratio:.1f}×, the loop extrapolated",
                ratio >= LEAST_LOCAL_MAP,
            )
            for name, each in local["networks"].items()
            for clock, ratio in each["ratio"].items()
        ),
        *(
            _at_most(f"inspect: all singular values at {size}, {name}", MOST_SPECTRUM, each["spectrum"]["wall"], " s")
            for name, each in local["networks"].items()
        ),
    ]


def _sweep_expectations(measured: dict[str, Any]) -> list[Expectation]:
    two, million = measured["two_workers"], measured["million"]
    cells = f"{million['cells']:,} cells"
    return [
        Expectation(
            "sweep: two workers, 10,000 runs in proportion",
            f"at least {LEAST_TWO_WORKERS:g}×",
            f"{two:.2f}×",
            two >= LEAST_TWO_WORKERS,
        ),
        _at_most("sweep: overhead beside a plain loop", MOST_OVERHEAD, measured["overhead"]),
        Expectation("sweep: the same bits by every way", "yes", str(measured["same_bits"]), measured["same_bits"]),
        *(
            _at_most(f"sweep: peak memory of the command, {who}, MB", MOST_SWEEP_MEMORY / 1e6, memory / 1e6)
            for who, memory in measured["memory"].items()
        ),
        _at_most(f"sweep: planning {cells}", MOST_PLANNING, million["planned_seconds"], " s"),
        _at_most(f"sweep: files of {cells}", MOST_FILES, million["files"]),
    ]


def _both_ways(run: dict[str, Any]) -> str:
    """The ratios for each way in which the peer's threads wait."""
    told = (f"{way} {seconds / run['ours_seconds']:.3g}×" for way, seconds in run["descent_waiting"].items())
    return f" (threads that wait {', '.join(told)})"


def _exact_expectations(exact: dict[str, Any]) -> list[Expectation]:
    found = [
        _at_most(f"first flow on the six points, CPU, {_words(kept)}", MOST_FIRST_CALL[kept], seconds, " s")
        for kept, seconds in exact["first_call_cpu_seconds"].items()
    ]
    for what, run in exact["runs"].items():
        if "diffrax" in what:  # at another accuracy: the table of work and precision tells
            continue
        least = next(least for name, least in LEAST_EXACT.items() if what.startswith(name))
        measured = f"{run['ratio']:.0f}×, the peer extrapolated{_both_ways(run)}"
        found.append(Expectation(f"exact flow: {what}", f"at least {least:g}×", measured, run["ratio"] >= least))
    width = exact["width"]
    what = f"exact flow: three points, widths {width['widths'][0]} to {width['widths'][-1]}, power of the width"
    found.append(_at_most(what, MOST_POWER, width["power"]))
    ratio = exact["generic"]["ratio"]
    what = "exact flow: generic data, beside Bosh3 as accurate"
    found.append(Expectation(what, "at least 1×", f"{ratio:.2f}×", ratio >= 1))
    beaten = exact["mid_size"]["beaten"]
    what = "auto: mid-size data, beside descent"
    found.append(Expectation(what, "not slower and less accurate", "it is" if beaten else "it is not", not beaten))
    for axis, grown in exact["growth"].items():
        most = MOST_EXACT_GROWTH.get(axis, grown["to"] / grown["from"])
        what = f"exact flow: cost when {axis} goes from {grown['from']:g} to {grown['to']:g}"
        found.append(Expectation(what, f"at most {most:g}×", f"{grown['factor']:.2f}×", grown["factor"] <= most))
    return found


def _at_most(what: str, most: float, measured: float, unit: str = "") -> Expectation:
    return Expectation(what, f"at most {most:g}{unit}", f"{measured:.2f}{unit}", measured <= most)


def _words(kept: str) -> str:
    return {"nothing_kept": "nothing compiled before", "kept": "compiled before"}[kept]


def _ratio(what: str, ratio: dict[str, Any], least: float) -> Expectation:
    worst, whole = min(ratio["rounds"]), ratio["ratio_with_compilation"]
    measured = f"{ratio['ratio']:.1f}× (lowest round {worst:.1f}×; with compilation {whole:.1f}×)"
    if ratio["extrapolated"]:
        measured += ", extrapolated"
    return Expectation(what, f"at least {least:g}×", measured, ratio["ratio"] >= least)


def _s(axis: str) -> str:
    return "" if axis == "samples" else "s"


def show(results: dict[str, Any], console: Console) -> None:
    """Print every table of what was measured."""
    if "figure3" in results:
        console.print(_contenders(results["figure3"]), _ratios(results["figure3"]), sep="\n")
        memory = results["memory"]
        console.print(
            f"Peak memory of the flow in a process of its own: {memory['peak_bytes'] / 1e9:.2f} GB, "
            f"of which {memory['imported_bytes'] / 1e9:.2f} GB before it began.\n"
        )
    if "exact" in results:
        exact = results["exact"]
        console.print(_exact_runs(exact), _work_precision(exact), _width(exact["width"]), sep="\n")
        console.print(_accuracy("Generic data: 100 neurons, 200 lines", exact["generic"]))
        console.print(_accuracy("Mid-size data: 100 neurons, 300 lines in ten dimensions", exact["mid_size"]))
    if "paper" in results:
        console.print(_paper(results["paper"]))
    if "cases" in results.get("explorer", {}):
        console.print(_explorer(results["explorer"]["cases"]))
    if "growth" in results:
        console.print(_growth(results["growth"]))
    if "sweeps" in results:
        console.print(_sweeps(results["sweeps"]))


def show_expectations(found: list[Expectation], other_cores: float | None, console: Console) -> None:
    """Print the closing table, if this run can judge anything, and which expectation was not met."""
    if found:
        table = _table("Expectations")
        for column in ("", "expected", "measured", "met"):
            table.add_column(column)
        for each in found:
            table.add_row(each.what, each.expected, each.measured, "[green]yes[/]" if each.met else "[bold red]NO[/]")
        console.print(table)
        missed = [each.what for each in found if not each.met]
        console.print(f"[bold red]Not met:[/] {'; '.join(missed)}." if missed else "All expectations met.")
    if other_cores is not None:
        busy = f"Other work kept {other_cores:.2f} cores busy during this run"
        console.print(busy + (": [bold red]do not trust small differences.[/]" if other_cores > 0.2 else "."))


def _explorer(cases: dict[str, Any]) -> Table:
    table = _table(
        "The explorer: from the move of a slider to the drawn frame, beside PyTorch descending the same case"
    )
    table.add_column("")
    for column in ("median (ms)", "worst (ms)", "descent (s)*", "times faster", "frames/s", "draws (ms)", "kB"):
        table.add_column(column, justify="right")
    for name, told in cases.items():
        table.add_row(
            name, f"{told['median_ms']:.0f}", f"{told['worst_ms']:.0f}", f"{told['descent_seconds']:.1f}",
            f"[bold]{told['ratio']:.0f}[/]", f"{told['frames_per_second']:.0f}", f"{told['drawing_ms']:.1f}",
            f"{told['bytes'] / 1000:.0f}",
        )  # fmt: skip
    return table


def _exact_runs(exact: dict[str, Any]) -> Table:
    first = exact["first_call_cpu_seconds"]
    caption = (
        f"Seconds of whole runs, compiled. The first call in a new process takes {first['kept']:.1f} s of CPU with "
        f"what is kept on disk, {first['nothing_kept']:.1f} s with nothing kept.\n"
    )
    table = _table("The exact flow beside its peers", caption)
    table.add_column("")
    for column in ("ours (s)", "peer (s)", "times faster"):
        table.add_column(column, justify="right")
    for what, run in exact["runs"].items():
        peer = run.get("descent_seconds", run.get("diffrax_seconds"))
        star = "*" if run["extrapolated"] else ""
        table.add_row(what, f"{run['ours_seconds']:.3f}", f"{peer:.1f}{star}", f"[bold]{run['ratio']:.0f}[/]")
    return table


def _work_precision(exact: dict[str, Any]) -> Table:
    table = _table("Work and precision: six points to t = 40, width 100; largest error of the loss, of its first value")
    for column in ("method", "setting"):
        table.add_column(column)
    for column in ("seconds", "error"):
        table.add_column(column, justify="right")
    for row in exact["work_precision"]:
        table.add_row(row["method"], row["setting"], f"{row['seconds']:.3f}", f"{row['error']:.1e}")
    return table


def _width(width: dict[str, Any]) -> Table:
    table = _table("Three points to t = 4000 from a balanced start", f"Seconds go as width^{width['power']:.2f}.\n")
    for column in ("width", "seconds", "loss"):
        table.add_column(column, justify="right")
    for row in zip(width["widths"], width["seconds"], width["losses"], strict=True):
        table.add_row(f"{row[0]}", f"{row[1]:.2f}", f"{row[2]:.5f}")
    return table


def _accuracy(title: str, found: dict[str, Any]) -> Table:
    table = _table(f"{title}; largest error of the loss, of its first value")
    for column in ("method", "setting"):
        table.add_column(column)
    for column in ("seconds", "error", "energy gap"):
        table.add_column(column, justify="right")
    for row in found["rows"]:
        numbers = f"{row['seconds']:.2f}", f"{row['error']:.1e}", _or_dash(row["energy_gap"], ".1e")
        table.add_row(row["method"], row["setting"], *numbers)
    return table


def _contenders(figure3: dict[str, Any]) -> Table:
    settings = figure3["settings"]
    steps = settings["rounds"] * settings["steps_per_round"]
    caption = (
        f"Seconds without compilation. Deviation: largest |ΔL| from the flow at rtol {settings['reference_rtol']:g}, "
        f"at {len(figure3['common_times'])} times. "
    )
    if figure3["descents_differ"] is None:
        caption += f"* extrapolated from {steps} of {settings['steps']} steps, too few for a loss curve to compare.\n"
    else:
        caption += (
            "Descent lags behind the flow by O(rate), most while the loss falls: that deviation is the protocol's own. "
            f"The three descents agree to {figure3['descents_differ']:.0e}.\n"
        )
    table = _table("Figure 3, α = 0: the whole run to t = 40", caption)
    table.add_column("")
    for column in ("whole run (s)", "compilation (s)", "gradients", "ms per gradient", "final loss", "deviation"):
        table.add_column(column, justify="right")
    for each in figure3["contenders"]:
        table.add_row(
            each["name"],
            f"{each['seconds']:.2f}{'*' if each['extrapolated'] else ''}",
            _or_dash(each["compile_seconds"], ".2f"),
            f"{each['evaluations']}",
            f"{1e3 * each['seconds'] / each['evaluations']:.2f}",
            _or_dash(each["final_loss"], ".7f"),
            _or_dash(each["largest_deviation"], ".1e"),
        )
    return table


def _ratios(figure3: dict[str, Any]) -> Table:
    table = _table("Times faster: median of the rounds (* extrapolated)")
    table.add_column("ours")
    table.add_column("peer")
    for column in ("ratio", "with compilation", "lowest and highest round"):
        table.add_column(column, justify="right")
    for each in figure3["ratios"]:
        what = "per step" if each["ours"] == "biasfree descent" else "whole run"
        table.add_row(
            f"{each['ours']}, {what}",
            each["peer"],
            f"[bold]{each['ratio']:.2f}[/]{'*' if each['extrapolated'] else ''}",
            f"{each['ratio_with_compilation']:.2f}",
            f"{min(each['rounds']):.2f} … {max(each['rounds']):.2f}",
        )
    return table


def _paper(paper: dict[str, Any]) -> Table:
    caption = f"biasfree reproduce, all of them with compilation and pictures: {paper['ours_seconds']:.1f} s.\n"
    table = _table("The papers' figures by PyTorch descent at the papers' rates", caption)
    table.add_column("")
    for column in ("steps", "seconds, in proportion"):
        table.add_column(column, justify="right")
    for figure, seconds in paper["peer_seconds"].items():
        table.add_row(figure, f"{paper['settings']['steps'][figure]}", f"{seconds:.0f}")
    table.add_row("all", f"{sum(paper['settings']['steps'].values())}", f"{paper['peer_total_seconds']:.0f}")
    return table


def _growth(growth: dict[str, Any]) -> Table:
    base = growth["settings"]["base"]
    title = f"Cost of a gradient beside {base['samples']} samples, width {base['width']}, dimension {base['dim']}"
    table = _table(title)
    table.add_column("")
    for column in ("×1 (ms)", "×2 (ms)", "×4 (ms)", "first doubling", "second doubling"):
        table.add_column(column, justify="right")
    for axis, grown in growth["axes"].items():
        costs = (f"{1e3 * seconds:.2f}" for seconds in grown["median_seconds_per_step"])
        table.add_row(axis, *costs, *(f"[bold]× {factor:.2f}[/]" for factor in grown["factors"]))
    return table


def _sweeps(measured: dict[str, Any]) -> Table:
    table = _table("A phase diagram of the six points, flows to t = 1000 at width 100")
    table.add_column("")
    for column in ("runs per second", "× PyTorch"):
        table.add_column(column, justify="right")
    peer = measured["per_second"]["PyTorch descent, in proportion"]
    for name, rate in measured["per_second"].items():
        table.add_row(name, f"{rate:.3g}", f"{rate / peer:.3g}")
    return table


def _table(title: str, caption: str | None = None) -> Table:
    return Table(title=f"[bold]{title}[/]", caption=caption, title_justify="left", caption_justify="left")


def _or_dash(value: float | None, form: str) -> str:
    return "—" if value is None else format(value, form)


def plain(found: list[Expectation]) -> list[dict[str, Any]]:
    """Expectations for JSON."""
    return [asdict(each) for each in found]
