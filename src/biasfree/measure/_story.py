"""Plateaus in words, and as plain numbers."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree.theory._gathering import shown

if TYPE_CHECKING:
    from biasfree.measure._awake import ActiveDirection
    from biasfree.measure._inner_growth import Part
    from biasfree.measure._plateaus import Plateau, Plateaus
    from biasfree.theory import Gathering

_SHOWN = 4
# What may be nonlinear in the outputs of what is called linear.
_LINEAR = 0.1


def story(plateaus: "Plateaus") -> str:
    """What happens, plateau by plateau."""
    count = len(plateaus)
    head = f"{plateaus.subject}, from weights of size {plateaus.init_scale:.3g} to t = {plateaus.until:.4g}: "
    head += "no plateau" if not count else "1 plateau" if count == 1 else f"{count} plateaus"
    rows = [head + "."]
    for number, each in enumerate(plateaus, 1):
        rows.append(f"{number}. {plateau(each)}")
    if plateaus.falling:
        rows.append("The run ends while the loss is still falling.")
    return "\n".join(rows)


def plateau(one: "Plateau") -> str:
    """One plateau: when, where, what is computed, what sleeps, how it ends."""
    stays = "to the end of the run" if not one.ends else f"to t = {one.end:.4g}"
    sentences = [f"From t = {one.begin:.4g} {stays} the loss waits at {one.level:.4g}."]
    sentences += [_function(one)]
    if one.growth is not None:
        sentences += [_sleepers(one), _parts(one)]
    sentences += [one.reason.text]
    return " ".join(sentence for sentence in sentences if sentence)


def _function(one: "Plateau") -> str:
    """What the network computes there."""
    if one.growth is not None and not one.directions:
        return "No neuron is awake; the output is still negligible."
    pointing = "; ".join(map(str, one.directions[:_SHOWN])) + (", …" if len(one.directions) > _SHOWN else "")
    linear = f"linear up to {one.nonlinearity:.2g} of its output"
    if one.growth is None:
        return f"The function is {linear}."
    if one.networks is None:
        what = f"The function is {linear}" if one.nonlinearity <= _LINEAR else "The function is not linear"
    elif len(one.networks) == 1:
        what = f"The network is one linear network, {linear}"
        if one.nonlinearity > _LINEAR:
            what = f"The network is one linear network on samples {_listed(one.networks[0])}, and silent elsewhere"
    else:
        each = " and ".join(_listed(samples) for samples in one.networks)
        what = f"The network is {len(one.networks)} linear networks, on samples {each}"
        if one.nonlinearity <= _LINEAR:
            what += f" (together {linear})"
    return f"{what}; awake neurons point to {pointing}."


def _listed(samples: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, samples[:8])) + (", …" if len(samples) > 8 else "") + "}"


def _sleepers(one: "Plateau") -> str:
    """Who sleeps where."""
    if not one.growth or not one.asleep:
        return ""
    drawn = "; ".join(map(growing, one.growth[:_SHOWN])) + ("; …" if len(one.growth) > _SHOWN else "")
    return f"Of {one.asleep} sleeping neurons the residuals draw {drawn}."


def _parts(one: "Plateau") -> str:
    """What grows inside awake neurons."""
    if not one.parts:
        return ""
    listed = "; ".join(
        f"(w, v) = ±({shown(part.direction)}, {shown(part.output)}) in {len(part.neurons)} of them at rate "
        f"{part.rate:.3g}"
        for part in one.parts[:_SHOWN]
    )
    return f"Awake neurons also grow in further directions: {listed}{'; …' if len(one.parts) > _SHOWN else ''}."


def growing(group: "Gathering") -> str:
    """A gathering direction and its sleepers."""
    v = f"v {'>' if group.sign > 0 else '<'} 0" if group.sign else f"v along {shown(group.output)}"
    return f"{len(group.neurons)} to {shown(group.direction)}, {v}, at rate {group.rate:.3g}"


def as_dict(one: "Plateau") -> dict[str, Any]:
    """Plain numbers, lists and strings."""
    return {
        "begin": one.begin,
        "end": number(one.end),
        "level": one.level,
        "slowest": one.slowest,
        "fall": one.fall,
        "nonlinearity": number(one.nonlinearity),
        "linear_map": np.asarray(one.linear_map).tolist(),
        "directions": [_direction(each) for each in one.directions],
        "networks": None if one.networks is None else [list(each) for each in one.networks],
        "asleep": one.asleep,
        "growth": None if one.growth is None else [_growth(each) for each in one.growth],
        "parts": [_part(each) for each in one.parts],
        "predicted_end": number(one.predicted_end),
        "predicted_by": one.predicted_by,
        "prediction_error": number(one.prediction_error),
        "reason": one.reason.kind,
        "text": str(one),
    }


def number(value: float) -> float | None:
    """A number for JSON."""
    return float(value) if math.isfinite(value) else None


def _direction(each: "ActiveDirection") -> dict[str, Any]:
    return {
        "direction": each.direction.tolist(),
        "sign": each.sign,
        "output": each.output.tolist(),
        "size": each.size,
        "neurons": each.neurons.tolist(),
        "samples": each.samples.tolist(),
        "sliding": each.sliding,
    }


def _growth(each: "Gathering") -> dict[str, Any]:
    return {
        "direction": each.direction.tolist(),
        "sign": each.sign,
        "output": each.output.tolist(),
        "rate": each.rate,
        "neurons": each.neurons.tolist(),
        "on_kink": each.on_kink,
    }


def _part(each: "Part") -> dict[str, Any]:
    return {
        "direction": each.direction.tolist(),
        "output": each.output.tolist(),
        "rate": each.rate,
        "end": number(each.end),
        "neurons": each.neurons.tolist(),
    }
