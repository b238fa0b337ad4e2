"""Steps that events cut in C: against the same flow decided event by event in Python, and the library itself."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import biasfree as bf
from biasfree.dynamics.exact import _explicit, _state
from biasfree.native import _build, address


def problem(seed: int, loss: str, outputs: int) -> tuple[bf.Network, bf.Dataset]:
    rng = np.random.default_rng([seed, outputs])
    samples, dim, width = int(rng.integers(4, 9)), int(rng.integers(2, 4)), int(rng.integers(3, 9))
    targets = rng.standard_normal((samples, outputs))
    if loss == "cross-entropy":
        targets = np.eye(outputs)[rng.integers(outputs, size=samples)]
    elif loss != "square":
        targets = np.sign(targets)
    data = bf.Dataset(rng.standard_normal((samples, dim)), targets[:, 0] if outputs == 1 else targets)
    return bf.Network.init([dim, width, outputs], float(rng.choice([0.0, 0.3])), 0.05, seed), data


@pytest.mark.parametrize(
    ("loss", "outputs"), [("square", 1), ("logistic", 1), ("exponential", 1), ("square", 3), ("cross-entropy", 3)]
)
@pytest.mark.parametrize("decay", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(3))
def test_events_decided_in_c_and_in_python(
    monkeypatch: pytest.MonkeyPatch, seed: int, decay: float, loss: str, outputs: int
) -> None:
    start, data = problem(seed, loss, outputs)
    options = {"until": 20.0, "save": 10, "loss": loss, "weight_decay": decay, "method": "exact", "rtol": 1e-9}
    compiled = bf.gradient_flow(start, data, **options)
    monkeypatch.setattr(_state, "_DIRECT", 0)
    python = bf.gradient_flow(start, data, **options)
    if "branch" in compiled.events.kinds:
        pytest.skip("a branch: the flow is not unique there")
    np.testing.assert_allclose(compiled.losses, python.losses, rtol=0, atol=1e-7 * python.losses[0])
    for one, other in zip(compiled.weights, python.weights, strict=True):
        np.testing.assert_allclose(one[-1], other[-1], atol=1e-6 * np.abs(other[-1]).max())
    assert compiled.energy_gap < 1e-7
    assert compiled.admissibility < 1e-7


def test_small_networks_go_that_way(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = _explicit.travel

    def counted(*args):
        calls.append(real(*args))
        return calls[-1]

    monkeypatch.setattr(_explicit, "travel", counted)
    run = bf.gradient_flow(
        bf.Network.init([2, 30, 1], 0.0, 1e-3, 0), bf.datasets.six_points(), until=40.0, method="exact"
    )
    assert sum(len(found.when) for found in calls) > 0.7 * len(run.events)


def test_parallel_rows_at_a_line_are_not_crossed_again_and_again() -> None:
    """XOR: groups come to rest on the other pair's line, and a step's curve is off by more than they are from it."""
    run = bf.gradient_flow(
        bf.Network.init([2, 60, 1], 0.0, 1e-4, 0), bf.datasets.xor(), until=80.0, method="exact", save=40
    )
    assert run.status.name == "reached"
    assert run.counts.accepted < 1000
    assert run.energy_gap < 1e-6


class TestTheLibrary:
    def test_it_is_named_by_its_sources(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for path in (*_build.HERE.glob("*.c"), *_build.HERE.glob("*.h")):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        before = _build.name()
        monkeypatch.setattr(_build, "HERE", tmp_path)
        assert _build.name() == before
        (tmp_path / "field.c").write_bytes((tmp_path / "field.c").read_bytes() + b"\n")
        assert _build.name() != before

    @pytest.mark.skipif(_build.compiler() is None, reason="no C compiler on this machine")
    def test_it_is_compiled_where_it_is_missing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # Optimised it takes seconds; that is what every other test here loads.
        monkeypatch.setattr(_build, "FLAGS", tuple("-O0" if flag == "-O3" else flag for flag in _build.FLAGS))
        made = _build.build(tmp_path / "new")
        assert ctypes.CDLL(str(made)).biasfree_solve
        assert _build.build(tmp_path / "new") == made
        assert [path.name for path in (tmp_path / "new").iterdir()] == [made.name]

    def test_without_a_compiler_a_sentence_says_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_build, "compiler", lambda: None)
        with pytest.raises(RuntimeError, match="pip install ziglang"):
            _build.build(tmp_path)

    @pytest.mark.parametrize("array", [np.zeros(3, dtype=np.float32), np.zeros((3, 3))[:, 1], np.zeros(3, dtype=int)])
    def test_arrays_that_c_would_misread_are_refused(self, array: np.ndarray) -> None:
        with pytest.raises(TypeError, match="contiguous array of float64"):
            address(array)
