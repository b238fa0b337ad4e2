"""Killed at any moment, a sweep goes on where it was, and its data are the same to the last bit."""

import os
import random
import signal
import time

import numpy as np
import pytest
import xarray as xr

import biasfree as bf
from biasfree import sweeps
from tests.sweeps import own_runs


@pytest.fixture(scope="module")
def undisturbed() -> xr.Dataset:
    return bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS).dataset


def same(found: xr.Dataset, other: xr.Dataset) -> None:
    for name in other.data_vars:
        if other[name].dtype.kind == "f":
            assert found[name].to_numpy().tobytes() == other[name].to_numpy().tobytes(), name
        else:
            assert (found[name] == other[name]).all(), name


def killed(tmp_path, undisturbed, times: int, workers: int | None = None) -> None:
    folder, out = tmp_path / "runs", tmp_path / "found.nc"
    rng = random.Random(0)
    for _ in range(times):
        before = len(list(folder.glob("batch-*.npz")))
        process = own_runs.apart(own_runs.sweep, folder, out, workers)
        own_runs.wait_for_batches(folder, before + 1, process)
        time.sleep(rng.uniform(0, 0.2))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    process = own_runs.apart(own_runs.sweep, folder, out, workers, pause=0.0)
    process.join(180)
    assert process.exitcode == 0
    found = sweeps.load(out)
    assert found.dataset.attrs["reused"] > 0
    same(found.dataset, undisturbed)


def test_kill_9_and_the_same_command_goes_on(tmp_path, undisturbed) -> None:
    killed(tmp_path, undisturbed, times=2)


@pytest.mark.slow
def test_kill_9_twenty_times(tmp_path, undisturbed) -> None:
    killed(tmp_path, undisturbed, times=20)


@pytest.mark.slow
def test_kill_9_of_a_command_with_workers(tmp_path, undisturbed) -> None:
    killed(tmp_path, undisturbed, times=5, workers=2)


def test_a_second_command_is_refused_and_ctrl_c_keeps_what_is_finished(tmp_path, undisturbed) -> None:
    folder, out = tmp_path / "runs", tmp_path / "found.nc"
    process = own_runs.apart(own_runs.sweep, folder, out)
    own_runs.wait_for_batches(folder, 2, process)
    with pytest.raises(ValueError, match="another sweep is at work"):
        bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS, folder=folder)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode
    assert not out.exists()
    found = bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS, folder=folder)
    assert 0 < found.tally.reused < own_runs.RUNS
    same(found.dataset, undisturbed)


def test_an_interrupted_flow_is_no_result(tmp_path) -> None:
    """Flows give back what they have on Ctrl-C; in a sweep that must not be taken for a finished run."""
    base = {"data": "six_points", "width": 500, "method": "bosh3"}

    def press(progress) -> None:
        if progress.computed == 1:  # the third takes a minute
            signal.setitimer(signal.ITIMER_REAL, 0.5)

    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            bf.sweep(base, {"until": [1, 2, 900]}, keep=["final_loss", "status"], folder=tmp_path, progress=press)
    finally:
        signal.signal(signal.SIGALRM, before)
    found = bf.sweep(base, {"until": [1, 2]}, keep=["final_loss", "status"], folder=tmp_path)
    assert found.tally.reused == 2
    assert set(found.dataset.status.to_numpy().ravel()) == {"reached"}


def test_order_does_not_matter(undisturbed) -> None:
    axes = {name: list(reversed(values)) for name, values in reversed(own_runs.AXES.items())}
    found = bf.sweep(own_runs.wave, axes, seeds=[2, 0, 1]).dataset
    aligned = found.transpose(*undisturbed.value.dims).reindex_like(undisturbed)
    np.testing.assert_array_equal(aligned.value, undisturbed.value)
