"""Predicted ends on whole families of data: a small sample always, all of them in ``make test-slow``."""

import numpy as np
import pytest

from tests.measure.plateau_families import departure_run, random_run, several_run


@pytest.mark.parametrize("number", [6, 24, 32])
def test_random_sets(number: int) -> None:
    found = random_run(number)
    assert len(found) >= 3
    assert all(each.right for each in found), "\n".join(map(str, found))


@pytest.mark.parametrize("number", [9, 10])
def test_almost_symmetric_sets(number: int) -> None:
    found = departure_run(number, 1e-4)
    assert np.isfinite(found.end) == (number == 9)
    assert found.right, str(found)


@pytest.mark.slow
def test_nine_in_ten_ends_of_fifty_random_sets_xor_and_the_orthogonal_pair() -> None:
    found = [each for number in range(52) for each in random_run(number)]
    assert np.mean([each.right for each in found]) >= 0.9, "\n".join(str(each) for each in found if not each.right)


@pytest.mark.slow
def test_thirty_six_of_forty_almost_symmetric_sets() -> None:
    right = [all(departure_run(number, scale).right for scale in (1e-4, 1e-12)) for number in range(40)]
    assert sum(right) >= 36


@pytest.mark.slow
def test_nine_in_ten_ends_of_twenty_sets_with_several_outputs() -> None:
    found = [each for number in range(20) for each in several_run(number)]
    assert np.mean([each.right for each in found]) >= 0.9, "\n".join(str(each) for each in found if not each.right)
