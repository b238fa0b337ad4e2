"""The limit of small starts, where it is known in closed form."""

import json

import numpy as np
import pytest

import biasfree as bf


def test_on_orthogonal_inputs_drops_come_at_one_over_the_rates() -> None:
    found = bf.skeleton(bf.datasets.orthogonal_pair(), width=20)
    assert found.exists
    assert found.levels == pytest.approx([0.5, 0.25, 0.0], abs=1e-4)
    # Rates of the two gathering directions, √5/2 and √5/4.
    assert found.taus == pytest.approx([2 / np.sqrt(5), 4 / np.sqrt(5)], rel=0.01)
    assert all(drop.error < 0.02 * drop.tau for drop in found.drops)
    assert [len(drop.born) for drop in found.drops] == [1, 1]
    json.dumps(found.to_dict(), allow_nan=False)


def test_several_outputs_are_refused() -> None:
    with pytest.raises(ValueError, match="scalar targets"):
        bf.skeleton(bf.Dataset(np.eye(2), np.eye(2)))
