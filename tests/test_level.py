"""Steps that end at a loss level."""

import math

import numpy as np
import pytest

import biasfree as bf
from biasfree.dynamics._level import End, energy_until, meeting, way_to_level


def falling(power: float):
    """Ends of L = t^(−power), as of weights whose speed is what such a fall needs: ‖Ẇ‖² = −dL/dt."""

    def at(time: float) -> End:
        bend = 0.5 * (1 - power)
        place = math.sqrt(power) * (math.log(time) if bend == 0 else time**bend / bend)
        return End(np.array([place]), np.array([math.sqrt(power * time ** (-power - 1))]), -power * math.log(time))

    return at


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_the_way_to_a_level_of_a_power_law_is_a_tenth_more_than_it_is(power) -> None:
    at = falling(power)
    level = at(25.0).log_loss
    assert way_to_level(at(20.0), at(15.0), level, "time") == pytest.approx(1.1 * 5.0, rel=1e-9)
    assert way_to_level(at(20.0), None, level, "time") < 1.1 * 5.0  # as if it fell exponentially


def test_the_way_to_a_level_that_is_not_known_or_far_has_no_end() -> None:
    at = falling(1.0)
    for here, level in ((at(20.0), -math.inf), (at(20.0), at(80.0).log_loss), (at(20.0), at(10.0).log_loss)):
        assert way_to_level(here, at(15.0), level, "time") == math.inf
    unknown = at(20.0)._replace(log_loss=math.nan)
    assert way_to_level(unknown, at(15.0), -3.0, "time") == math.inf


def test_the_level_is_met_within_a_step_and_never_missed() -> None:
    at, looks = falling(1.0), []

    def look(flat: np.ndarray) -> End:
        looks.append(math.exp(flat[0]))
        return at(looks[-1])

    first, last, level = at(10.0), at(14.0), at(13.0).log_loss
    part, there = meeting(first, last, 4.0, level, "time", look)
    assert level - 1e-4 <= there.log_loss <= level
    assert len(looks) <= 2
    assert part == pytest.approx(0.75, abs=1e-3)
    assert meeting(first, last, 4.0, last.log_loss, "time", look) is None
    assert meeting(first, last, 4.0, at(9.0).log_loss, "time", look) is None
    assert meeting(first._replace(log_loss=math.nan), last, 4.0, level, "time", look) is None


def test_the_energy_of_a_part_is_that_of_a_quadratic() -> None:
    def power(x: float) -> float:
        return 3.0 - 2.0 * x + 0.5 * x * x

    mean = 3.0 - 1.0 + 0.5 / 3
    for part in (0.0, 0.3, 1.0):
        right = 3.0 * part - part**2 + part**3 / 6
        assert energy_until(part, power(0.0), power(1.0), mean) == pytest.approx(right, abs=1e-14)


@pytest.mark.parametrize("method", ["bosh3", "tsit5", "rkc"])
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_runs_end_at_the_level_with_their_gauges_intact(method, decay) -> None:
    """A linear network, whose flow has no kinks."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(80, 6))
    data = bf.Dataset(inputs, inputs @ rng.normal(size=(6, 2)))
    start, asked = bf.Network.init([6, 40, 2], 1.0, 0.1, 1), {"until": 1e4, "stop": 0.5, "weight_decay": decay}
    run = bf.gradient_flow(start, data, rtol=1e-4, method=method, **asked)
    assert run.status.name == "loss level"
    assert 0.5 * (1 - 2e-4) <= run.losses[-1] <= 0.5
    assert run.energy_gap < 1e-3
    tight = bf.gradient_flow(start, data, rtol=1e-9, method="dopri8", **asked)
    assert run.times[-1] == pytest.approx(tight.times[-1], rel=1e-3)
