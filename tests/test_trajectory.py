"""Trajectories: what is saved, what can be asked of them, and their files."""

import itertools
import json
import math

import numpy as np
import pytest

import biasfree as bf
from biasfree import Network, Trajectory, datasets

DATA = datasets.symmetric_gaussian(dim=3, pairs=20, target="linear_plus_sine", seed=3)
START = Network.init([3, 6, 1], 0.4, 0.3, 11)
FLOW = {"until": 4.0, "rtol": 1e-8}


@pytest.fixture(scope="module")
def flow() -> Trajectory:
    return bf.gradient_flow(START, DATA, **FLOW)


@pytest.fixture(scope="module")
def descent() -> Trajectory:
    return bf.gradient_descent(START, DATA, learning_rate=0.02, steps=200, save=7)


def assert_same_weights(one: Network, two: Network, **tolerance) -> None:
    for a, b in zip(one.weights, two.weights, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def test_time_zero_gives_back_the_start(flow, descent) -> None:
    for run in (flow, descent):
        assert_same_weights(run.at(0.0), START, rtol=0, atol=0)
        assert run.times[0] == 0


def test_losses_belong_to_the_networks(flow) -> None:
    for loss, log_loss, network in zip(flow.losses, flow.log_losses, flow.networks, strict=True):
        expected = 0.5 * np.mean((DATA.targets - np.asarray(network(DATA.inputs))) ** 2)
        assert loss == pytest.approx(expected, rel=1e-12)
        assert log_loss == pytest.approx(math.log(expected), rel=1e-10)
    assert (np.diff(flow.losses) < 0).all()


def test_at_integrates_instead_of_interpolating(flow) -> None:
    times = np.array([0.013, 1.7, 3.999])
    # To the tolerance for a smooth flow; a kink, met by other steps, is passed with another error of its order.
    for start, run, atol in ((START, flow, 1e-5), (START.with_slope(1.0), None, 1e-7)):
        whole = run or bf.gradient_flow(start, DATA, **FLOW)
        direct = bf.gradient_flow(start, DATA, **FLOW, save=times)
        np.testing.assert_array_equal(direct.times, times)
        for one, two in zip(whole.at(times), direct.networks, strict=True):
            assert_same_weights(one, two, atol=atol)


def test_at_of_a_descent_is_the_step_before(descent) -> None:
    direct = bf.gradient_descent(START, DATA, learning_rate=0.02, steps=33, save=[33])
    assert_same_weights(descent.at(33 * 0.02), direct.final, rtol=0, atol=0)
    assert_same_weights(descent.at(33.7 * 0.02), direct.final, rtol=0, atol=0)
    with pytest.raises(ValueError, match="within the run"):
        descent.at(4.1)


def test_time_of_loss(flow) -> None:
    level = float(np.sqrt(flow.losses[3] * flow.losses[4]))
    time = flow.time_of_loss(level)
    assert flow.times[3] < time < flow.times[4]
    network = flow.at(time)
    assert float(0.5 * np.mean((DATA.targets - network(DATA.inputs)) ** 2)) == pytest.approx(level, rel=1e-5)
    assert flow.time_of_loss(10.0) == 0.0
    assert math.isnan(flow.time_of_loss(1e-9))


def test_saving(flow) -> None:
    even = bf.gradient_flow(START, DATA, **FLOW, save=8)
    np.testing.assert_allclose(even.times, np.linspace(0, 4, 9))
    assert_same_weights(even.final, flow.final, atol=1e-6)
    late = bf.gradient_flow(START, DATA, **FLOW, save=[1.0, 2.0])
    np.testing.assert_array_equal(late.times, [1.0, 2.0])
    assert late.energy_gap < 1e-4


def test_a_long_run_is_thinned() -> None:
    run = bf.gradient_flow(START.with_slope(1.0), DATA, until=4.0, smallest_step=0.002, rtol=1e-13, method="bosh3")
    assert 2000 <= run.counts.accepted <= 2001  # the last may be a rest of rounding
    assert 200 <= len(run.times) <= 402
    assert run.times[0] == 0
    assert run.times[-1] == 4.0
    # Half of the room is for steps spread over the time.
    assert np.diff(run.times).max() <= 4.0 / 200 + 2 * 0.002


@pytest.mark.parametrize("kind", ["flow", "descent", "late", "skips", "vector"])
def test_netcdf_round_trip(kind, flow, descent, tmp_path) -> None:
    if kind == "late":
        run = bf.gradient_flow(START, DATA, **FLOW, save=[1.0, 2.0])
    elif kind == "skips":
        network = Network.init([3, 4, 4, 1], 0.0, 0.3, 0, rectified=[True, False], skips=[0, 1, 0])
        run = bf.gradient_flow(network, DATA, until=1.0, save=3)
    elif kind == "vector":
        data = bf.Dataset(DATA.inputs, np.column_stack([DATA.targets, -DATA.targets]), "two outputs")
        run = bf.gradient_flow(Network.init([3, 4, 2], 0.0, 0.3, 0), data, until=1.0, save=3)
    else:
        run = {"flow": flow, "descent": descent}[kind]
    path = tmp_path / "run.nc"
    run.save(path)
    again = Trajectory.load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]
    for name in ("times", "losses", "log_losses", "energies"):
        np.testing.assert_array_equal(getattr(again, name), getattr(run, name))
    assert (again.status, again.counts, again.settings) == (run.status, run.counts, dict(run.settings))
    assert (str(again), again.template.architecture) == (str(run), run.template.architecture)
    assert again.environment == run.environment
    assert again.stretches == run.stretches
    assert run.stretches[-1].end == (4.0 if kind == "late" else run.times[-1])  # to its end, whatever is saved
    np.testing.assert_equal(again.admissibility, run.admissibility)
    middle = float(run.times[0] + 0.4 * (run.times[-1] - run.times[0]))
    assert_same_weights(again.at(middle), run.at(middle), rtol=0, atol=0)


def test_files_of_the_first_format_are_read(flow, tmp_path) -> None:
    old = flow.to_xarray()
    del old.attrs["stretches"], old.attrs["admissibility"]
    old.attrs["format"] = "biasfree trajectory 1"
    old.to_netcdf(tmp_path / "old.nc", engine="h5netcdf")
    again = Trajectory.load(tmp_path / "old.nc")
    assert again.stretches == ()
    assert math.isnan(again.admissibility)
    np.testing.assert_array_equal(again.losses, flow.losses)


def test_stretches_are_told(flow) -> None:
    """A linear network from a small start leaps over the early phase, takes steps, and comes to rest."""
    run = bf.gradient_flow(START.with_slope(1.0).rescaled(1e-4), DATA, until=300.0, method="tsit5")
    assert [stretch.how for stretch in run.stretches] == ["early phase, in closed form", "tsit5", "coming to rest"]
    assert run.stretches[0].begin == 0
    assert run.stretches[-1].end == 300
    for one, two in itertools.pairwise(run.stretches):
        assert one.end == two.begin
    assert "coming to rest to t = 300" in str(run)
    assert json.loads(json.dumps(run.summary()))["stretches"][1]["how"] == "tsit5"
    assert "course" not in str(flow)


def test_xarray_is_labelled(flow) -> None:
    labelled = flow.to_xarray()
    assert labelled["W1"].dims == ("time", "hidden1", "input")
    assert labelled["W2"].dims == ("time", "output", "hidden1")
    assert float(labelled["loss"].sel(time=0.0)) == flow.losses[0]
    assert json.loads(labelled.attrs["settings"])["rtol"] == 1e-8
    assert labelled["time"].attrs["long_name"] == "flow time"


def test_card_and_summary_tell_everything(flow) -> None:
    card = str(flow)
    for text in ("3-6-1 leaky ReLU (slope 0.4)", "symmetric Gaussian", "network 11, data 3", "exact", "rtol 1e-08",
                 "gradient evaluations", "balance drift", "energy gap", "reached t = 4"):  # fmt: skip
        assert text in card
    summary = json.loads(json.dumps(flow.summary(), allow_nan=False))
    assert summary["network_origin"] == {"start": "init", "scale": 0.3, "seed": 11}
    assert summary["data_origin"]["seed"] == 3
    assert {"jax", "scipy", "platform", "commit"} <= set(summary["environment"])


def test_bad_files(flow, tmp_path) -> None:
    (tmp_path / "x.nc").write_bytes(b"junk")
    with pytest.raises(ValueError, match="as a trajectory"):
        Trajectory.load(tmp_path / "x.nc")
    with pytest.raises(ValueError, match="no file at"):
        Trajectory.load(tmp_path / "none.nc")
    with pytest.raises(ValueError, match=r"must end in .nc"):
        flow.save(tmp_path / "x.pkl")
    with pytest.raises(ValueError, match="does not exist"):
        flow.save(tmp_path / "no" / "x.nc")
    flow.to_xarray().drop_attrs().to_netcdf(tmp_path / "y.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="format is not known"):
        Trajectory.load(tmp_path / "y.nc")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.nc", "y.nc"]


def test_the_same_seed_gives_the_same_bytes(flow) -> None:
    again = bf.gradient_flow(Network.init([3, 6, 1], 0.4, 0.3, 11), DATA, **FLOW)
    for one, two in zip(again.weights, flow.weights, strict=True):
        assert one.tobytes() == two.tobytes()


def test_predictions_are_laid_over_a_loss_plot() -> None:
    run = bf.gradient_flow(bf.Network.init([2, 10, 1], 1.0, 0.1, seed=0), bf.datasets.xor(), until=2.0, save=4)
    figure = bf.report.plot_loss(run, predicted={"theory": (run.times, run.losses)})
    measured, predicted = figure.axes[0].lines
    assert predicted.get_linestyle() == "--"
    assert predicted.get_ydata().tolist() == measured.get_ydata().tolist()
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["2-10-1 linear network", "theory"]
