"""A real cluster on loopback: a scheduler and two workers in processes of their own, and one of them killed."""

import contextlib
import importlib
import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import biasfree as bf
from biasfree import sweeps
from biasfree.sweeps import _engine
from tests.sweeps import own_runs
from tests.sweeps.test_faults import same

pytest.importorskip("distributed")

FLOWS = {"data": "six_points", "width": 20, "until": 120}
FLOW_AXES = {"offset": [0.1, 0.15, 0.2, 0.25], "init_scale": [1e-4, 1e-3]}
KEEP = ["final_loss", "measure.linearity.error", "best_possible_loss"]
PREDICTED = ["best_possible_loss", "predicted_weight_error", "theory.symmetry.even"]  # nothing that compiles


@pytest.fixture
def cluster(tmp_path):
    """Address, scheduler and workers."""
    told = tmp_path / "scheduler.json"
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told)]
    processes = [own_runs.apart(dask, "scheduler", words, tmp_path)]
    end = time.monotonic() + 60
    while not told.exists() or not told.read_text().strip():
        assert time.monotonic() < end, "the scheduler did not start"
        time.sleep(0.05)
    address = json.loads(told.read_text())["address"]
    words = [address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    processes += [own_runs.apart(dask, "worker", words, tmp_path) for _ in range(2)]
    yield address, processes
    for process in processes:
        process.kill()
        process.join()


def dask(command: str, words: list[str], folder: Path) -> None:
    """``dask scheduler`` or ``dask worker``, in a folder."""
    os.chdir(folder)
    importlib.import_module(f"distributed.cli.dask_{command}").main(words)


def killed_in_the_middle(cluster, keep, folder) -> None:
    address, processes = cluster
    alone = bf.sweep(FLOWS, FLOW_AXES, keep=keep, seeds=8)
    seen = []

    def kill(progress) -> None:
        if progress.computed >= 2 and not seen:
            seen.append(progress.computed)
            os.kill(processes[1].pid, signal.SIGKILL)

    found = bf.sweep(FLOWS, FLOW_AXES, keep=keep, seeds=8, scheduler=address, folder=folder, progress=kill)
    assert 0 < seen[0] < 64
    processes[1].join(10)
    assert processes[1].exitcode == -signal.SIGKILL
    assert found.summary()["failed"] == 0
    same(found.dataset, alone.dataset)


def test_a_worker_and_then_the_scheduler_are_killed(cluster, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setattr(_engine, "_NO_ANSWER", 3.0)
    killed_in_the_middle(cluster, PREDICTED, tmp_path / "runs")
    address, processes = cluster
    monkeypatch.setattr(_engine, "_NO_ANSWER", 1.5)  # for so long the client looks for a scheduler that is gone

    def kill_scheduler(progress) -> None:
        if progress.computed >= 20 and processes[0].is_alive():
            processes[0].kill()
            processes[0].join()

    # A user's function travels to workers that do not have its file.
    kept = tmp_path / "more"
    with pytest.raises(sweeps.ClusterError, match="the same command goes on"):
        bf.sweep(own_runs.wave, own_runs.AXES, seeds=3, scheduler=address, folder=kept, progress=kill_scheduler)
    assert "Traceback" not in capfd.readouterr().err
    resumed = bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS, folder=kept)
    assert resumed.tally.reused >= 20
    same(resumed.dataset, bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS).dataset)


@pytest.mark.slow
def test_flows_on_a_cluster_with_a_killed_worker_give_the_same_bits(cluster, tmp_path) -> None:
    killed_in_the_middle(cluster, KEEP, tmp_path / "runs")


def test_local_workers_give_the_same_bits(tmp_path) -> None:
    found = bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS, workers=2, folder=tmp_path / "runs")
    same(found.dataset, bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS).dataset)


@pytest.mark.slow
def test_a_run_that_kills_its_worker_is_a_failed_cell() -> None:
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


def test_a_result_that_was_killed_with_its_worker_is_waited_for(monkeypatch) -> None:
    """Between Dask's word that a batch is done and a look at it its worker may go; the scheduler has it done again."""

    class Future:
        status = "lost"

        def result(self) -> str:
            return "a batch"

    future = Future()
    monkeypatch.setattr("distributed.wait", lambda futures, **_: SimpleNamespace(done=set(futures)))
    cluster = _engine.Cluster(SimpleNamespace(status="running", as_current=contextlib.nullcontext))
    cluster._pending[future] = "its runs"
    assert not list(cluster._ended())
    future.status = "finished"
    assert list(cluster._ended()) == [("its runs", "a batch")]
    assert not cluster._pending


def test_workers_of_another_version_are_refused(monkeypatch) -> None:
    from biasfree.sweeps import _keys, _worker

    spec = sweeps.Plan.of(FLOWS, FLOW_AXES, KEEP).spec([[0.1], [1e-3]])
    monkeypatch.setattr(_keys, "numerics", lambda: "another version")
    with pytest.raises(_worker.OtherNumericsError, match="Install the same versions"):
        _worker.work(spec, _worker.Cells(None, None))
