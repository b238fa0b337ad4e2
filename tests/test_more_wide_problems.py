"""The second half of the wide problems of ``make test``; a file of its own, so that two processes share them."""

import pytest

from tests.test_wide_problems import BATCH, run_batch


@pytest.mark.parametrize("first", range(200, 400, BATCH))
def test_none_of_the_next_fails(first: int) -> None:
    run_batch(range(first, first + BATCH))
