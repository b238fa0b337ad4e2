"""The forecast as a function of the scale of the start, beside forecasts from other scales."""

import re

import numpy as np
import pytest

import biasfree as bf


def test_the_sentence_at_one_scale_tells_the_forecast_of_another() -> None:
    data = bf.datasets.six_points(offset=0.04)
    told = str(bf.diagnose(data, simulate=False))
    slope, rest = re.search(r"linear until t ≈ ([\d.]+) ln\(1/γ\) \+ ([\d.]+)", told).groups()
    other = bf.diagnose(data, init_scale=1e-6, simulate=False).departure_time
    assert float(slope) * np.log(1e6) + float(rest) == pytest.approx(other, rel=0.05)


@pytest.mark.parametrize("data", [bf.datasets.xor(), bf.datasets.six_points(offset=0.0)])
def test_where_nothing_is_left_there_is_no_such_sentence(data: bf.Dataset) -> None:
    assert "from other init scales" not in str(bf.diagnose(data, simulate=False))
