"""Refinement finds a boundary that is known, to 1/256 of an axis, for a fraction of the runs."""

import numpy as np
import pytest

import biasfree as bf
from biasfree.sweeps import Range


def disc(x: float, y: float) -> dict[str, str | float]:
    """A quarter of a disc of radius 0.7."""
    return {"side": "in" if x**2 + y**2 < 0.49 else "out", "distance": (x**2 + y**2) ** 0.5}


def bend(x: float, y: float) -> dict[str, str]:
    return {"side": "below" if y < 0.3 + 0.2 * np.sin(4 * x) else "above"}


@pytest.mark.parametrize("run", [disc, bend])
def test_a_known_boundary_to_one_in_256(run) -> None:
    axes = {"x": Range(0, 1, 9), "y": Range(0, 1, 9)}
    found = bf.sweep(run, axes, refine="side", levels=5)
    runs = found.summary()["runs"]
    assert runs < 1200  # of 66,049
    data = found.dataset.squeeze("seed")
    known = data.side.to_numpy() != ""
    assert known.sum() == runs
    assert (data.level.to_numpy() >= 0).sum() == runs
    # Along each column of the first grid the side changes between two neighbours of the finest grid.
    for column in np.linspace(0, 1, 9):
        line = data.side.sel(x=column)
        line = line[line.to_numpy() != ""]
        sides = line.to_numpy()
        for i in np.flatnonzero(sides[1:] != sides[:-1]):
            assert float(line.y[i + 1] - line.y[i]) == pytest.approx(1 / 256)
        exact = [run(column, value)["side"] for value in line.y.to_numpy()]
        assert list(sides) == exact
    # What nearest points say of a fine grid is right but within a cell of the boundary.
    from biasfree.report._sweep_panels import _filled, middle

    shown = _filled(middle(found.dataset.side), known)
    truth = np.array([[run(a, b)["side"] for b in data.y.to_numpy()] for a in data.x.to_numpy()])
    assert np.mean(shown != truth) < 0.02


def test_coarse_grid_and_refined_points_are_in_one_result_and_resumed(tmp_path) -> None:
    axes = {"x": Range(0.1, 1, 4, "log"), "y": [0.1, 0.5, 1.0]}
    coarse = bf.sweep(disc, axes, folder=tmp_path / "runs")
    fine = bf.sweep(disc, axes, refine="side", levels=3, folder=tmp_path / "runs")
    assert fine.tally.reused == 12
    for x in coarse.dataset.x.to_numpy():
        assert x in fine.dataset.x
    assert bf.sweep(disc, axes, refine="side", levels=3, folder=tmp_path / "runs").tally.computed == 0
    deeper = bf.sweep(disc, axes, refine="side", levels=4, folder=tmp_path / "runs")
    assert deeper.tally.reused >= fine.summary()["runs"] * 0.9  # the levels before are the same points


def test_numbers_whole_numbers_and_words() -> None:
    def step(n: int, kind: str, x: float) -> float:
        return float(n > (13 if kind == "early" else 40)) + 0.01 * x

    found = bf.sweep(step, {"n": [1, 64], "kind": ["early", "late"], "x": [0.0, 1.0]}, refine="step", levels=8)
    data = found.dataset.squeeze("seed")
    assert data.n.dtype.kind == "i"
    for kind, last in (("early", 13), ("late", 40)):
        line = data.step.sel(kind=kind, x=0.0).dropna("n")
        low, high = line.n[line < 0.5].max(), line.n[line > 0.5].min()
        assert (int(low), int(high)) == (last, last + 1)
