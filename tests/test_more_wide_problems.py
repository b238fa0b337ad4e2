"""The second half of the wide problems of ``make test``; a file of its own, so that two processes share them."""

import pytest

from tests.test_wide_problems import BATCH, run_batch
from tests.wide import QUICK


@pytest.mark.parametrize("first", range(len(QUICK) // 2, len(QUICK), BATCH))
def test_none_of_the_next_fails(first: int) -> None:
    run_batch(QUICK[first : first + BATCH])
