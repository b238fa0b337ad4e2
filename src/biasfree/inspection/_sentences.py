"""An inspection in words: the practical sentence, the certificate with its gap, then details."""

from typing import TYPE_CHECKING

import numpy as np

from biasfree.answer import Picture, Section, Table
from biasfree.inspection import _merging

if TYPE_CHECKING:
    from biasfree.inspection._inspection import Inspection

_FILTERS = 5_000_000


def headline(inspection: "Inspection") -> str:
    """How far from linear, where the user looks."""
    if inspection.linear:
        why = "" if inspection.decision is None else f", {inspection.decision.why.rstrip('.')}"
        return f"It is linear{why}: f(x) = Mx for every x."
    distance = inspection.practical_distance
    where = (
        f"on {inspection.points.name}" if inspection.on_data or inspection.decision is None else "over the unit sphere"
    )
    if inspection.verdict == "not decided":
        return f"{_first(where)} there is one sample only, too few to say whether it is linear."
    if not inspection.outputs.any():
        return f"{_first(where)} its output is zero."
    if inspection.linear_plus_constant:
        rest = percent(float(np.sqrt(max(1 - (inspection.share.affine or 0.0), 0.0))))
        return f"{_first(where)} it is linear plus a constant, up to {rest} of its output{_whole(inspection)}."
    amount = percent(distance)
    if inspection.verdict == "linear in effect":
        return f"{_first(where)} it is linear up to {amount} of its output{_whole(inspection)}."
    if inspection.verdict == "nearly linear":
        missed = f"the best linear map misses {amount} of its output"
        return f"{_first(where)} it is nearly linear: {missed}{_whole(inspection)}."
    amount = "all" if distance >= 1 else amount
    if not inspection.share.enough and (inspection.on_data or inspection.decision is None):
        given = f"that {inspection.share.samples} samples give for each other"
        missed = f"the best linear map {given} misses {amount} of its output"
        return f"{_first(where)} it is not linear, as far as so few samples tell: {missed}{_whole(inspection)}."
    return f"{_first(where)} it is not linear: the best linear map misses {amount} of its output{_whole(inspection)}."


def sections(inspection: "Inspection") -> tuple[Section, ...]:
    """The certificate, where there is one, and then details."""
    measured = Section(
        "On the data" if inspection.on_data else f"On random inputs ({inspection.points.drawn})", _measured(inspection)
    )
    certified = Section("For every input", _certified(inspection))
    listed = [
        *((measured, certified) if inspection.decision is None else (certified, measured)),
        Section("Local maps A_x", _local(inspection)),
        Section("Its neurons", _neurons(inspection)),
        Section("What it is", _kind(inspection)),
        Section("What was left out", inspection.left_out),
        Section("Its layers", table=_table(inspection), pictures=_pictures(inspection)),
    ]
    return tuple(s for s in listed if s.sentences or s.table or s.pictures)


def percent(value: float) -> str:
    """As a percentage, with two digits.

    >>> percent(0.0002), percent(0.25), percent(1e-9)
    ('0.02 %', '25 %', '1e-07 %')
    """
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.3g} %"


def _first(text: str) -> str:
    return text[0].upper() + text[1:]


def _whole(inspection: "Inspection") -> str:
    return ", as far as it was looked at" if inspection.graph is not None and inspection.graph.left_out else ""


def _measured(inspection: "Inspection") -> list[str]:
    share, scaling = inspection.share, inspection.homogeneity
    sentences = []
    if share.samples > 1:
        sentences.append(f"Linear share of the output, held out: {_share(share.share)} ({share.method}).")
    if share.affine is not None:
        sentences.append(f"A linear map plus a constant explains {_share(share.affine)}.")
    if not inspection.linear and share.samples > 1 and inspection.outputs.any():
        where = f", most in {_place(inspection, share.worst_output)}" if inspection.outputs.shape[1] > 1 else ""
        sentences.append(
            f"The linear map fails most at sample {share.worst_sample}, where it misses "
            f"{percent(share.worst_distance)} of the output{where}."
        )
    extra = len(inspection.points.values) > 1
    jointly = " in all inputs jointly" if scaling.jointly else " in the first input, the others held fixed" * extra
    sentences.append(
        f"Homogeneity f(cx) = c f(x){jointly}, c from 0.001 to 1000: off by at most {percent(scaling.error)} "
        f"(at c = {scaling.at_factor:.3g}; {scaling.samples} samples)."
        + " With `jointly` (--jointly) all inputs are scaled."
        * (extra and not scaling.jointly)
    )
    how = ", by differences of values" if scaling.by_differences else ""
    added = ", what the other inputs add included" * (extra and not scaling.jointly)
    sentences.append(
        f"Net bias f(x) − A_x x{added}: {percent(scaling.net_bias)} of the output, at most "
        f"{percent(scaling.largest_net_bias)} on a sample{how}."
    )
    return sentences


def _certified(inspection: "Inspection") -> list[str]:
    answer = inspection.decision
    if answer is None:
        why = (
            "of a function only values are known"
            if inspection.graph is None
            else "it is no fully connected chain of layers"
        )
        return [f"No certificate: {why}. What stands above holds where it was measured."]
    near, sentences = answer.nearness, []
    if answer.certificate is not None:
        gap = inspection.certificate_gap
        apart = "." if gap is None or inspection.linear else (
            f"; the largest met is {near.largest:.3g}‖x‖, {gap:.2g} times smaller." if gap > 1.005
            else f"; that is reached, at x = {_vector(near.witness)}."
        )  # fmt: skip
        sentences.append(
            f"Certified: |f(x) − Mx| ≤ {answer.certificate.bound:.3g}‖x‖ ({answer.certificate.method}){apart}"
        )
    else:
        sentences.append("With biases no bound on |f(x) − Mx|/‖x‖ exists near 0.")
    if not inspection.linear:
        sentences.append(_first(answer.why) if answer.linear is None else f"Exactly linear it is not: {answer.why}")
    form = answer.form
    if form is not None and not form.is_linear:
        odd = "even, f(−x) = f(x)" if form.is_even else "linear plus even"
        terms = f"{len(form.directions)} term{'s' * (len(form.directions) != 1)}"
        sentences.append(f"By Theorem 1 it is {odd}: f(x) = Mx + Σ c|vᵀx| with {terms}.")
    if not inspection.linear:
        how = "exactly" if not near.pairs else f"± {near.error:.1g}, {near.pairs} pairs ±x, seed {inspection.seed}"
        sentences.append(
            f"Over the unit sphere its odd part is {near.odd:.3g} and its even part {near.even:.3g} of its size, "
            f"and it is {near.distance:.3g} from the best linear map ({how})."
        )
    if answer.maximum is not None:
        state = "exactly" if answer.maximum.finished else "at least"
        sentences.append(
            f"The largest |f(x) − Mx| over the box |x_i| ≤ 1 is {state} {answer.maximum.value:.6g} "
            f"(mixed-integer programming, {answer.maximum.switches} switches)."
        )
    if inspection.linear_map is not None:
        sentences.append(f"M = {_vector(inspection.linear_map)}.")
    return sentences


def _local(inspection: "Inspection") -> list[str]:
    local = inspection.local
    if local is None:
        return []
    ranks = [each.effective_rank for each in local.maps]
    top = local.maps[0]
    kept = top.singular_values[top.singular_values > top.resolution]
    sentences = [
        f"A_x at {_samples(len(ranks))}: effective rank {_range(ranks)} of {len(top.singular_values)}; largest "
        f"singular value {_range([float(m.singular_values[0]) for m in local.maps])}; {len(kept)} above rounding at "
        f"sample {top.sample}."
    ]
    asymmetries = [m.asymmetry for m in local.maps if m.asymmetry is not None]
    if asymmetries and len(top.singular_values) > 1:
        sentences.append(
            f"Asymmetry ‖A − Aᵀ‖/2‖A‖: {_range(asymmetries)}; Σs² is {_range([m.dimensionality for m in local.maps])}, "
            "the dimension of what is kept if A_x is a projection."
        )
    if local.varied_over > 1:
        by = ", estimated from random directions" if local.by_probes else ""
        sentences.append(
            f"Over {_samples(local.varied_over)} A_x varies by {percent(local.variation)} of its size{by}."
        )
    return sentences


def _neurons(inspection: "Inspection") -> list[str]:
    sentences = []
    if inspection.merged is not None and inspection.layers is not None and inspection.layers.depth > 1:
        before = sum(inspection.layers.widths[1:-1])
        widths = "-".join(map(str, inspection.merged.layers.widths))
        exact = inspection.tolerance <= _merging.EXACT
        how = "exact merging" if exact else f"merging at tolerance {inspection.tolerance:g}"
        sentences.append(
            f"Of {before} hidden neurons {inspection.neurons_after_merging} remain after {how} ({widths})."
        )
        if not exact:
            sentences.append(f"That changes the function by at most {inspection.merged.error:.2g}‖x‖.")
    if inspection.patterns is not None:
        for number, layer in enumerate(inspection.patterns.layers[:4], 1):
            unit = "channels" if layer.channels else "neurons"
            sentences.append(
                f"Activation {number}: of {layer.units} {unit} {layer.dead} dead, {layer.always_active} always active, "
                f"{layer.switching} switching; active {percent(layer.active_share)} of the time."
            )
        if len(inspection.patterns.layers) > 4:
            sentences.append(f"… and {len(inspection.patterns.layers) - 4} activations more.")
        sentences.append(
            f"{inspection.patterns.distinct} different activation patterns on {inspection.patterns.samples} samples."
        )
    return sentences


def _kind(inspection: "Inspection") -> list[str]:
    graph = inspection.graph
    if graph is None:
        return ["A function of which only values are known."]
    notes = list(graph.notes if graph.chain is None else graph.chain.notes)
    if graph.homogeneous:
        joint = " in all its inputs jointly" if len(graph.ports) > 1 else ""
        return [f"It has no biases, so it is positively homogeneous{joint}: f(cx) = c f(x) for every c > 0.", *notes]
    sentences = []
    if graph.shifts:
        names = [str(node) for node in graph.shifts]
        if inspection.layers is not None:
            names = [str(k) for k, b in enumerate(inspection.layers.biases, 1) if b is not None]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        where = f"layer{'s' * (len(names) != 1)} {shown}" if inspection.layers is not None else shown
        state = (
            "and is not positively homogeneous" if inspection.homogeneous is False
            else "though no departure from positive homogeneity was found"
        )  # fmt: skip
        sentences.append(f"It has biases in {where}, {state}.")
    bent = sorted({n.operation.title for n in graph.nodes if not n.operation.homogeneous})
    if bent:
        sentences.append(
            f"{', '.join(bent)} {'is' if len(bent) == 1 else 'are'} not piecewise linear: measured, not certified."
        )
    return [*sentences, *notes]


def _table(inspection: "Inspection") -> Table | None:
    if not inspection.layer_reports:
        return None
    heads = ["layer", "shape", "norm", "stable rank", "rank", "s₂/s₁", "alignment", "imbalance", "residual"]
    equation = inspection.layer_reports[0].equation
    if equation is not None:
        heads[-1] = f"Eq. {equation} residual"
    rows = [
        [
            f"{layer.name}{' + bias' if layer.has_bias else ''}", f"{layer.outputs}×{layer.inputs}",
            f"{layer.norm:.4g}", _cell(layer.stable_rank), str(layer.rank), _cell(layer.second_singular_value),
            _cell(layer.alignment), _cell(layer.imbalance), _cell(layer.residual),
        ]
        for layer in inspection.layer_reports
    ]  # fmt: skip
    if inspection.layers is None:
        heads, rows = heads[:6], [row[:6] for row in rows]
    return Table(heads, rows)


def _pictures(inspection: "Inspection") -> list[Picture]:
    pictures = [
        Picture(
            "inspection",
            "Left: what of each sample's output is not linear, held out. Right: singular values of the local maps A_x, "
            "or for a single output its slopes.",
            {"inspection": inspection},
        )
    ]
    if inspection.decision is not None and inspection.layers is not None:
        pictures.append(
            Picture(
                "layers",
                "Left: output against the best linear map. Right: singular values of each layer.",
                {"inspection": inspection},
            )
        )
    local = inspection.local
    if local is not None and _is_image(local.shape) and local.shape == local.out and np.prod(local.shape) < _FILTERS:
        pictures.append(
            Picture(
                "filters",
                "Equivalent filters: rows of A_x, by which the output at the marked pixel is made from the input; and "
                "leading singular vectors.",
                {"inspection": inspection},
            )
        )
    return pictures


def _is_image(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and min(shape[1:]) >= 4


def _place(inspection: "Inspection", output: int) -> str:
    """An output by its number, or by channel and pixel."""
    out = () if inspection.local is None else inspection.local.out
    if len(out) < 2:
        return f"output {output + 1}"
    channel, *pixel = (int(i) for i in np.unravel_index(output, out))
    return f"channel {channel} at ({', '.join(map(str, pixel))})"


def _share(value: float) -> str:
    """Enough digits to distinguish 99.99 % from 100 %."""
    if value >= 1 - 1e-12:
        return "100 %"
    if value > 0.99:
        return f"{percent(1 - value)} short of 100 %"
    return f"{100 * value:.3g} %" if value > 0 else f"none ({value:.2g})"


def _samples(count: int) -> str:
    return f"{count} sample{'s' * (count != 1)}"


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"


def _vector(array: np.ndarray) -> str:
    """A short vector whole, a long one by its size."""
    if array.size > 8:
        return f"a map of shape {array.shape} and norm {np.linalg.norm(array):.6g}" if array.ndim > 1 else (
            f"a vector of {array.size} numbers and norm {np.linalg.norm(array):.6g}"
        )  # fmt: skip
    return np.array2string(array, precision=6, separator=", ").replace("\n", "")


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
