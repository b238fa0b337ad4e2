"""A real cluster on loopback: a scheduler and two workers in processes of their own, and one of them killed."""

import json
import os
import signal
import time

import pytest

import biasfree as bf
from biasfree import sweeps
from tests.sweeps import own_runs
from tests.sweeps.test_faults import same

pytest.importorskip("distributed")

FLOWS = {"data": "six_points", "width": 20, "until": 120}
FLOW_AXES = {"offset": [0.1, 0.15, 0.2, 0.25], "init_scale": [1e-4, 1e-3]}
KEEP = ["final_loss", "measure.linearity.error", "best_possible_loss"]


@pytest.fixture
def cluster(tmp_path):
    """Address, scheduler and workers."""
    told = tmp_path / "scheduler.json"
    words = ["-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    options = {"stdout": -3, "stderr": -3, "cwd": tmp_path}
    processes = [own_runs.started(*words, "--scheduler-file", str(told), **options)]
    end = time.monotonic() + 60
    while not told.exists() or not told.read_text().strip():
        assert time.monotonic() < end, "the scheduler did not start"
        time.sleep(0.05)
    address = json.loads(told.read_text())["address"]
    worker = ["-m", "dask", "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    processes += [own_runs.started(*worker, **options) for _ in range(2)]
    yield address, processes
    for process in processes:
        process.kill()
        process.wait()


def test_a_worker_is_killed_in_the_middle(cluster, tmp_path) -> None:
    address, processes = cluster
    alone = bf.sweep(FLOWS, FLOW_AXES, keep=KEEP, seeds=4)
    seen = []

    def kill(progress) -> None:
        if progress.computed >= 2 and not seen:
            seen.append(progress.computed)
            os.kill(processes[1].pid, signal.SIGKILL)

    folder = tmp_path / "runs"
    found = bf.sweep(FLOWS, FLOW_AXES, keep=KEEP, seeds=4, scheduler=address, folder=folder, progress=kill)
    assert seen
    assert processes[1].wait(10) == -signal.SIGKILL
    assert found.summary()["failed"] == 0
    same(found.dataset, alone.dataset)
    # A user's function travels to workers that do not have its file.
    assert bf.sweep(own_runs.wave, {"a": [0.1], "b": [1.0]}, scheduler=address).summary()["failed"] == 0
    # The scheduler dies: a sentence, and what was done is kept.
    kept = tmp_path / "more"

    def kill_scheduler(progress) -> None:
        if progress.computed >= 20 and processes[0].poll() is None:
            processes[0].kill()
            processes[0].wait()

    with pytest.raises(sweeps.ClusterError, match="the same command goes on"):
        bf.sweep(own_runs.wave, own_runs.AXES, seeds=3, scheduler=address, folder=kept, progress=kill_scheduler)
    resumed = bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS, folder=kept)
    assert resumed.tally.reused >= 20
    same(resumed.dataset, bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS).dataset)


def test_local_workers_give_the_same_bits_and_survive_a_run_that_kills_them(tmp_path) -> None:
    def deadly(a: float) -> float:
        if a == 3.0:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        return a**0.5

    axes = {"a": [float(i) for i in range(8)]}
    found = bf.sweep(deadly, axes, workers=2).dataset.squeeze("seed")
    assert found.state.to_numpy().tolist() == [1, 1, 1, 2, 1, 1, 1, 1]
    assert "took its worker down" in str(found.message[3].item())
    assert [float(x) for x in found.deadly[4:]] == [float(i) ** 0.5 for i in range(4, 8)]


def test_workers_of_another_version_are_refused(monkeypatch) -> None:
    from biasfree.sweeps import _keys, _worker

    spec = sweeps.Plan.of(FLOWS, FLOW_AXES, KEEP).spec([[0.1], [1e-3]])
    monkeypatch.setattr(_keys, "numerics", lambda: "another version")
    with pytest.raises(_worker.OtherNumericsError, match="Install the same versions"):
        _worker.work(spec, _worker.Cells(None, None))
