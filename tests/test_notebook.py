"""What objects show of themselves: one line, a card, a small picture with its text beside it."""

import base64
import re
import struct

import numpy as np
import pytest

import biasfree as bf
from biasfree import report

SIX = bf.datasets.six_points()


@pytest.fixture(scope="module")
def run() -> bf.Trajectory:
    start = bf.Network.init([2, 8, 1], slope=0.0, init_scale=1e-3, seed=0)
    return bf.gradient_flow(start, SIX, until=60, save=40)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    settings = {"data": "six_points", "width": 8, "until": 5}
    return bf.sweep(settings, {"init_scale": [1e-3, 1e-2]}, keep=["final_loss"], folder=folder, title="two starts")


def _shown(run, sweep) -> list:
    deep = bf.Network.init([5, 6, 6, 1], slope=0.1, init_scale=0.3, seed=0)
    return [run, run.plateaus(), run.final, deep, SIX, bf.datasets.iris(), sweep]


def test_each_is_one_line_and_a_picture_with_its_text(run, sweep) -> None:
    for shown in _shown(run, sweep):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 200
        page = shown._repr_html_()
        encoded = re.search(r"src='data:image/png;base64,([^']+)'", page)[1]
        picture = base64.b64decode(encoded)
        width, height = struct.unpack(">II", picture[16:24])
        assert 100 < width < 900
        assert 100 < height < 700
        assert re.search(r"alt='[^']{10,}'", page)
        assert "http" not in page
        assert shown.plot().get_axes()


def test_what_a_name_holds_is_escaped() -> None:
    page = bf.Dataset([[1.0, 2.0]], [1.0], "<script>alert('x')</script>")._repr_html_()
    assert "<script" not in page


def test_a_run_without_plateaus_shows_its_loss() -> None:
    start = bf.Network.init([2, 8, 1], slope=0.0, init_scale=1.0, seed=0)
    found = bf.gradient_flow(start, SIX, until=0.01, save=5).plateaus()
    if not len(found):
        assert "loss" in found.plot().get_axes()[0].get_ylabel()
    assert "Plateaus(" in repr(found)


def test_the_map_is_the_networks_output(run) -> None:
    """Colours are outputs: at the middle of the square, at its corners, and mirrored for −f."""
    axes, bar = report.output_map(run.final, SIX, reach=2.0).get_axes()
    values = axes.collections[0].get_array().reshape(121, 121)
    side = np.linspace(-2, 2, 121)
    for i, k in ((0, 0), (60, 60), (0, 120), (77, 13)):
        assert values[i, k] == pytest.approx(float(run.final(np.array([side[k], side[i]]))), abs=1e-12)
    low, high = axes.collections[0].get_clim()
    assert low == -high
    assert bar.get_ylabel() == "output"


def test_several_outputs_have_a_map_each_and_classes_one() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(30, 2))
    network = bf.Network.init([2, 10, 3], slope=0.0, init_scale=1.0, seed=0)
    vectors = bf.Dataset(inputs, rng.normal(size=(30, 3)))
    assert sum("output" not in axes.get_ylabel() for axes in report.output_map(network, vectors).get_axes()) == 3
    classes = bf.Dataset(inputs, np.array(["a", "b", "c"])[rng.integers(0, 3, 30)], classes=True)
    (axes,) = report.output_map(network, classes).get_axes()
    side = np.linspace(*axes.get_xlim(), 121)
    drawn = axes.collections[0].get_array().reshape(121, 121)
    assert drawn[5, 90] == np.argmax(network(np.array([side[90], side[5]])))


def test_neurons_are_the_rows_and_their_signs(run) -> None:
    (axes,) = report.plot_neurons(run.final, SIX).get_axes()
    dots = axes.collections[0]
    np.testing.assert_allclose(dots.get_offsets(), run.final.weights[0])
    red = np.asarray(dots.get_facecolors())[:, 0] > 0.5
    np.testing.assert_array_equal(red, np.asarray(run.final.weights[1])[0] > 0)
    # A grey line is where a neuron's input from a sample changes its sign; every sample has one.
    ways = [np.array(line.get_xy2()) for line in axes.lines if line.get_color() == "lightgrey"]
    assert all(min(abs(way @ x) for way in ways) < 1e-12 for x in SIX.inputs)


def test_other_dimensions_are_projected() -> None:
    data = bf.datasets.symmetric_gaussian(dim=5, pairs=20, seed=0)
    network = bf.Network.init([5, 6, 1], slope=0.0, init_scale=1.0, seed=0)
    assert report.output_map(network, data).get_axes()[0].get_xlabel() == "1st direction"
    (axes,) = report.plot_neurons(network, data).get_axes()
    plane = np.linalg.svd(data.inputs)[2][:2]
    shown = np.asarray(axes.collections[0].get_offsets())
    np.testing.assert_allclose(np.abs(shown), np.abs(np.asarray(network.weights[0]) @ plane.T), atol=1e-10)


def test_what_does_not_fit_is_a_sentence(run) -> None:
    other = bf.datasets.symmetric_gaussian(dim=3, pairs=4, seed=0)
    for draw in (report.output_map, report.plot_neurons):
        with pytest.raises(ValueError, match="maps 2 inputs to 1, the data has 3 and 1"):
            draw(run.final, other)
    with pytest.raises(ValueError, match="nothing is known to draw of a dict"):
        report.plot({})
