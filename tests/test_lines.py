"""Grouping by lines: against brute force, at all scales, without a points × points object."""

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import biasfree as bf
from biasfree.lines import _known, lines, up_to_sign


@given(seed=st.integers(0, 10**6), dim=st.integers(1, 5), count=st.integers(1, 12), repeats=st.integers(1, 30))
def test_multiples_of_a_vector_share_a_line(seed: int, dim: int, count: int, repeats: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(count if dim > 1 else 1, dim))
    which = rng.integers(0, len(base), repeats)
    factor = rng.choice([-1.0, 1.0], repeats) * 10.0 ** rng.uniform(-150, 100, repeats)
    vectors = factor[:, None] * base[which]
    grouped = lines(vectors)
    assert (grouped.member[:, None] == grouped.member).tolist() == (which[:, None] == which).tolist()
    rebuilt = grouped.position[:, None] * grouped.directions[grouped.member]
    assert np.abs(rebuilt / factor[:, None] - base[which]).max() < 1e-13 * np.abs(base).max()


def test_small_grids_against_brute_force() -> None:
    grid = np.array(np.meshgrid(*[np.arange(-2.0, 3.0)] * 3)).reshape(3, -1).T
    grouped = lines(grid)
    for i, x in enumerate(grid):
        for j, y in enumerate(grid[:i]):
            parallel = np.linalg.norm(np.cross(x, y)) == 0 and x.any() and y.any()
            same = grouped.member[i] == grouped.member[j] >= 0
            assert parallel == same
    assert grouped.member[np.flatnonzero(~grid.any(axis=1))].tolist() == [-1]


def test_nearby_lines_stay_apart_and_tolerance_joins_them() -> None:
    angle = np.array([0.3, 0.3 + 1e-6, 0.3 + np.pi])
    vectors = np.column_stack([np.cos(angle), np.sin(angle)])
    assert lines(vectors).member.tolist() == [0, 1, 0]
    assert lines(vectors, tolerance=1e-5).member.tolist() == [0, 0, 0]


def test_signs_are_relative_to_the_first_of_a_group() -> None:
    group, side, first = up_to_sign(np.array([[1.0, 2.0], [3.0, 0.0], [-1.0, -2.0], [1.0, 2.0]]), 1e-12)
    assert group.tolist() == [0, 1, 0, 0]
    assert side.tolist() == [1, 1, -1, 1]
    assert first.tolist() == [0, 1]


def test_sums_leave_the_origin_out() -> None:
    grouped = lines([[1.0, 0.0], [0.0, 0.0], [-2.0, 0.0]])
    assert grouped.total(np.array([1.0, 10.0, 5.0])).tolist() == [6.0]


def test_a_million_points_need_memory_of_their_own_size_only() -> None:
    half = np.random.default_rng(0).normal(size=(250_000, 2))
    points = np.concatenate([half, -half])
    tracemalloc.start()
    grouped = lines(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(grouped) == 250_000
    assert peak < 40 * points.nbytes


def test_refuses_what_is_not_numbers() -> None:
    with pytest.raises(ValueError, match="array of real numbers"):
        lines([["a", "b"]])


def test_they_are_found_from_the_package() -> None:
    import biasfree as bf

    assert bf.lines.lines is lines
    assert "lines" in dir(bf)


def test_lines_of_data_are_found_once_and_those_of_arrays_that_may_change_anew() -> None:
    data = bf.Dataset(np.random.default_rng(0).normal(size=(5, 3)), np.zeros(5))
    assert lines(data.inputs) is lines(data.inputs)
    with pytest.raises(ValueError, match="read-only"):
        lines(data.inputs).position[0] = 1.0
    own = np.eye(3)
    before = len(lines(own))
    own[1] = own[0]
    assert (before, len(lines(own))) == (3, 2)
    kept = len(_known)
    lines(data.inputs, 1e-6)
    assert len(_known) == kept + 1
    del data
    gc.collect()
    assert len(_known) < kept
