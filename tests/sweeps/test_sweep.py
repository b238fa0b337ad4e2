"""Sweeps find what single runs find, label it, and say what is wrong with a plan."""

import math

import numpy as np
import pytest

import biasfree as bf
from biasfree import sweeps
from biasfree.sweeps import Range
from tests.plain_descent import descend
from tests.sweeps import own_runs

BASE = {"data": "xor", "width": 12, "until": 2.0}


def test_cells_are_the_runs_one_would_make_by_hand() -> None:
    kept = ["final_loss", "status", "measure.linearity.error", "theory.best_possible_loss.loss"]
    found = bf.sweep(BASE, {"slope": [0.0, 0.5], "init_scale": [1e-3, 1e-2]}, keep=kept, seeds=[3, 5]).dataset
    assert found.final_loss.dims == ("slope", "init_scale", "seed")
    for slope in (0.0, 0.5):
        start = bf.Network.init([2, 12, 1], slope, 1e-2, seed=5)
        run = bf.gradient_flow(start, bf.datasets.xor(), until=2.0)
        cell = found.sel(slope=slope, init_scale=1e-2, seed=5)
        assert cell.final_loss == run.losses[-1]
        assert cell.status == "reached"
        assert cell["measure.linearity.error"] == bf.measure.linearity(run.final, run.dataset.inputs).error
    assert (found["theory.best_possible_loss.loss"] < 1e-12).all()  # XOR lies on rays: anything can be fitted
    assert found.slope.attrs["long_name"] == "slope α"


def test_generator_arguments_noise_and_files_are_what_they_say(tmp_path) -> None:
    def mean_target(case: sweeps.Case) -> float:
        """Mean of the squared targets."""
        return float(np.mean(case.dataset.targets**2))

    def first_input(case: sweeps.Case) -> float:
        return float(case.dataset.inputs[0, 0])

    base = {"data": "symmetric_gaussian", "pairs": 2000, "until": 1, "data_seed": "run"}
    found = bf.sweep(base, {"dim": [2, 3], "noise": [0.0, 0.5]}, keep=[mean_target, first_input], seeds=2).dataset
    added = found.mean_target.sel(noise=0.5) - found.mean_target.sel(noise=0.0)
    np.testing.assert_allclose(added, 0.25, atol=0.05)
    assert found.first_input.sel(dim=2, noise=0, seed=1) == bf.datasets.symmetric_gaussian(2, 2000, seed=1).inputs[0, 0]
    table = tmp_path / "mine.csv"
    table.write_text("x,y,price\n1,2,3\n-1,0.5,2\n2,1,0\n")
    of_file = bf.sweep({"data": str(table), "target": "price", "until": 1}, {"width": [4]}, keep=[mean_target])
    assert float(of_file.dataset.mean_target.squeeze()) == pytest.approx(13 / 3)


def test_departure_time_is_where_plain_descent_leaves() -> None:
    base = {"data": "six_points", "width": 100, "until": 1000, "stop": "departure"}
    left = bf.sweep(base, {"slope": [0.0]}, keep=["leaves", "departure_time", "linear_loss"], seeds=2).dataset.squeeze()
    assert left.leaves.to_numpy().tolist() == [1.0, 0.0]  # seed 1 stays for ever
    assert left.departure_time[1] == math.inf
    assert float(left.linear_loss[0]) == pytest.approx(0.443615, abs=1e-6)
    data, start = bf.datasets.six_points(), bf.Network.init([2, 100, 1], 0.0, 1e-3, seed=0)
    level = 0.9 * float(left.linear_loss[0])  # zero loss is possible, a tenth of the way to it is 0.9
    time = float(left.departure_time[0])
    before, after = (
        descend(data.inputs, data.targets, *start.weights, until=until, steps=round(until / 0.01)).loss
        for until in (0.96 * time, 1.04 * time)
    )
    assert after < level < before


def test_weight_error_of_theorem_5_ends_at_its_prediction() -> None:
    base = {"data": "symmetric_gaussian", "dim": 4, "pairs": 20, "width": 200, "until": 60, "init_scale": 1e-4}
    found = bf.sweep(base, {"slope": [0.0, 0.4]}, keep=["weight_error", "predicted_weight_error"], seeds=2).dataset
    np.testing.assert_allclose(found.weight_error, found.predicted_weight_error, rtol=0.05)


def test_plateaus_of_a_run_by_their_number() -> None:
    """The orthogonal pair is learned in two drops of equal height, with a plateau at 0.25 between."""
    keep = ["plateaus.count", "plateaus.1.level", "plateaus.1.end", "plateaus.9.end"]
    found = bf.sweep({"data": "orthogonal_pair", "until": 60}, {"width": [100]}, keep=keep).dataset.squeeze()
    assert float(found["plateaus.1.level"]) == pytest.approx(0.25, abs=0.01)
    run = bf.gradient_flow(bf.Network.init([2, 100, 1], 0.0, 1e-3, 0), bf.datasets.orthogonal_pair(), until=60)
    assert run.time_of_loss(0.249) - 2 < float(found["plateaus.1.end"]) < run.time_of_loss(0.125)
    assert 2 <= float(found["plateaus.count"]) <= 3
    assert np.isnan(found["plateaus.9.end"])


def test_departures_are_predicted_without_simulation() -> None:
    """t·δ ≈ 91 for small offsets at scale 1e-3, and ρ ≈ 0.111 δ is about the weight decay that holds them back."""
    base = {"data": "six_points", "until": 1}
    found = bf.sweep(
        base, {"offset": [0.02, 0.04]}, keep=["predicted_departure_time", "decay_to_spare"]
    ).dataset.squeeze()
    np.testing.assert_allclose(found.predicted_departure_time * found.offset, 91, rtol=0.1)
    np.testing.assert_allclose(found.decay_to_spare / found.offset, 0.111, rtol=0.1)


def test_failed_runs_are_cells_with_their_sentence() -> None:
    found = bf.sweep(
        BASE, {"init_scale": [1e-3, -1.0], "until": [2.0, math.inf]},
        keep=["final_loss", "best_possible_loss"],
    )  # fmt: skip
    data = found.dataset.squeeze("seed")
    assert data.state.sel(init_scale=1e-3, until=2.0) == 1
    assert data.state.sel(init_scale=-1.0, until=2.0) == 2
    assert "above 0" in str(data.message.sel(init_scale=-1.0, until=2.0).item())
    assert np.isnan(data.final_loss.sel(init_scale=-1.0, until=2.0))
    assert data.best_possible_loss.sel(init_scale=-1.0, until=2.0) < 1e-12  # what does not need the run is kept
    assert "needs a stop rule" in str(data.message.sel(init_scale=1e-3, until=math.inf).item())
    assert sum(found.failures.values()) == 3
    assert found.summary()["failed"] == 3


def test_runs_take_as_many_steps_as_they_may() -> None:
    limits = {"max_steps": [5, 100_000]}
    found = bf.sweep({**BASE, "method": "tsit5"}, limits, keep=["status", "final_loss"]).dataset.squeeze("seed")
    assert found.status.to_numpy().tolist() == ["step limit", "reached"]
    assert np.isnan(found.final_loss[0])
    assert found.final_loss[1] > 0
    descent = bf.sweep({**BASE, "learning_rate": 0.1}, {"max_steps": [5]}, keep=["final_loss"]).dataset
    assert "max_steps belong to the flow" in str(descent.message.item())


def test_a_run_that_cannot_be_trusted_gives_no_number() -> None:
    base = {"data": "xor", "until": 50, "width": 8}
    found = bf.sweep(base, {"method": ["exact", "dopri8"]}, keep=["final_loss", "status"]).dataset.squeeze()
    assert found.status.to_numpy().tolist() == ["reached", "inaccurate"]  # steps that chatter
    assert found.state.to_numpy().tolist() == [1, 2]
    assert np.isnan(found.final_loss[1])
    assert str(found.message[1].item()).startswith("inaccurate: not to be trusted")


def test_own_functions_saved_and_read_again(tmp_path) -> None:
    found = bf.sweep(own_runs.wave, {"a": [0.0, 0.3], "b": [1.0, 3.0]}, seeds=2)
    assert found.dataset.value.sel(a=0.3, b=1.0, seed=1) == math.sin(0.3 * 12.9898 + 78.233 + 1)
    assert found.failures == {"b = 3 does not go with seed 1.": 2}
    found.save(tmp_path / "found.nc")
    again = sweeps.load(tmp_path / "found.nc")
    assert again.dataset.identical(found.dataset) or again.dataset.equals(found.dataset)
    assert again.plan["axes"]["b"]["values"] == [1.0, 3.0]
    assert "numpy" in again.dataset.attrs["environment"]
    (tmp_path / "other.nc").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"cannot read other\.nc as a sweep"):
        sweeps.load(tmp_path / "other.nc")


@pytest.mark.parametrize(
    ("run", "axes", "options", "sentence"),
    [
        (BASE, {}, {}, "at least one axis"),
        (BASE, {"widht": [1, 2]}, {}, "Did you mean 'width'"),
        ({"data": "six_point", "until": 1}, {"width": [3]}, {}, "Did you mean 'six_points'"),
        ({"data": "xor"}, {"width": [3]}, {}, "needs 'until'"),
        (BASE, {"offset": [0.1]}, {}, "unknown argument 'offset'"),
        (BASE, {"width": []}, {}, "has no values"),
        (BASE, {"width": [3, 3]}, {}, "a value twice"),
        (BASE, {"width": [3.5]}, {}, "whole number"),
        (BASE, {"width": "wide"}, {}, "list of values or a range"),
        (BASE, {"slope": Range(0, 1, 1)}, {}, "count must be a whole number of at least 2"),
        (BASE, {"init_scale": Range(0, 1, 3, "log")}, {}, "above 0"),
        (BASE, {"width": [3]}, {"keep": []}, "something to keep"),
        (BASE, {"width": [3]}, {"keep": ["final_los"]}, "Did you mean 'final_loss'"),
        (BASE, {"width": [3]}, {"keep": ["measure.linearity.eror"]}, "has no 'eror'"),
        (BASE, {"width": [3]}, {"keep": ["theory.closed_form"]}, "needs 'times', which no run has"),
        (BASE, {"width": [3]}, {"keep": ["guess.this"]}, "unknown kind of quantity"),
        (BASE, {"width": [3]}, {"seeds": 0}, "seeds must be"),
        (BASE, {"width": [3]}, {"seeds": [1, 1]}, "different whole numbers"),
        (BASE, {"width": [3, 4]}, {"refine": "verdict"}, "unknown kept quantity"),
        (BASE, {"loss": ["square"]}, {"refine": "final_loss"}, "at least two numbers"),
        (BASE, {"width": [3]}, {"seeds": [0.5]}, "each of seeds must be a whole number"),
        (BASE, {"width": [3]}, {"seeds": 10**19}, "seeds may be at most"),
        (BASE, {"width": [3]}, {"keep": [3]}, "names of quantities or functions"),
        (BASE, {"width": [math.inf]}, {}, "whole number"),
        (BASE, {"slope": Range(0, 1, 10**10)}, {}, "at most 1,000,000 values"),
        (BASE, [("width", [3])], {}, "values by name"),
        (BASE, {"slope": [0.0, 0.5]}, {"refine": "final_loss", "levels": 40}, "levels may be at most 12"),
        (BASE | {"loss": "sqare"}, {"width": [3]}, {}, "Did you mean 'square'"),
        (BASE | {"slope": 2}, {"width": [3]}, {}, r"slope must lie in \[0, 1\]"),
        (BASE | {"stop": "departur"}, {"width": [3]}, {}, "Did you mean 'departure'"),
        (BASE | {"init_scale": -1.0}, {"width": [3]}, {}, "init_scale must be a finite number above 0"),
        ({"data": "symmetric_gaussian", "dim": 0, "until": 1}, {"width": [3]}, {}, "dim must be"),
        (own_runs.wave, {"a": [1.0]}, {"keep": ()}, "needs 'b'"),
        (BASE, {"width": [3]}, {"workers": 0}, "workers must be"),
        (BASE, {"width": [3]}, {"workers": 2, "scheduler": "tcp://127.0.0.1:1"}, "give one of both"),
    ],
)
def test_bad_plans_get_one_sentence(run, axes, options, sentence) -> None:
    options = {"keep": ["final_loss"]} | options
    with pytest.raises(ValueError, match=sentence) as caught:
        bf.sweep(run, axes, **options)
    assert "\n" not in str(caught.value)


def test_a_scheduler_that_is_not_there(monkeypatch) -> None:
    from biasfree.sweeps import _engine

    monkeypatch.setattr(_engine, "_NO_ANSWER", 0.5)
    with pytest.raises(ValueError, match="no scheduler answers at"):
        bf.sweep(BASE, {"width": [3]}, keep=["final_loss"], scheduler="tcp://127.0.0.1:1")


def test_ranges_of_whole_numbers_are_whole() -> None:
    found = bf.sweep(BASE, {"width": Range(10, 1000, 4, "log")}, keep="linear_loss").dataset
    assert found.width.to_numpy().tolist() == [10, 46, 215, 1000]


def test_a_quantity_that_is_a_word_in_one_run_is_one_in_all(tmp_path) -> None:
    def height(a: float) -> float | str:
        return "none" if a == 2 else a / 3 if a else math.nan

    for values in ([0.0, 1.0, 2.0, 3.0], [2.0, 3.0, 0.0, 1.0]):  # batches of one run, then of three
        for _ in range(2):  # computed, then read again
            found = bf.sweep(height, {"a": values}, folder=tmp_path / f"{values[0]}").dataset.squeeze("seed")
            told = [str(found.height.sel(a=a).item()) for a in (0.0, 1.0, 2.0, 3.0)]
            assert told == ["", repr(1 / 3), "none", "1.0"]


def test_what_an_own_run_cannot_return_is_a_sentence() -> None:
    def nothing(a: float) -> None:
        return None

    def a_level(a: float) -> dict[str, float]:
        return {"level": a}

    assert "must return a number, a word, or a dict" in next(iter(bf.sweep(nothing, {"a": [1.0]}).failures))
    assert "cannot be called 'level'" in next(iter(bf.sweep(a_level, {"a": [1.0]}).failures))


def test_functions_that_no_key_can_hold_are_refused() -> None:
    held = np.ones(3)

    def run(a: float) -> float:
        return float(held.sum() * a)

    with pytest.raises(ValueError, match="takes 'held' from around it"):
        bf.sweep(run, {"a": [1.0]})
    with pytest.raises(ValueError, match="source of"):
        bf.sweep(eval("lambda a: a"), {"a": [1.0]})


def test_a_million_cells_are_planned_at_once() -> None:
    import time

    from biasfree.sweeps import _keys

    began = time.perf_counter()
    axes = {"offset": Range(0.01, 0.3, 100), "init_scale": Range(1e-9, 1e-3, 100, "log"), "slope": Range(0, 0.9, 10)}
    plan = sweeps.Plan.of({"data": "six_points", "until": 1000}, axes, ["final_loss"], 10)
    points = np.stack(np.unravel_index(np.arange(100_000), (100, 100, 10)), axis=1)
    keys = _keys.keys(plan.shared_word(), {n: a.values for n, a in plan.axes.items()}, points, plan.seeds)
    assert plan.runs == len(keys) == 1_000_000
    assert len(np.unique(keys[:, 0])) == 1_000_000
    assert time.perf_counter() - began < 10
