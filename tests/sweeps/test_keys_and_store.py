"""A run's key is all that determines it, and a batch file is whole or not there."""

import os
import zipfile

import numpy as np
import pytest

import biasfree as bf
from biasfree.sweeps import StoreError, _keys, _store
from tests.sweeps import own_runs

BASE = {"data": "six_points", "until": 1}


def key_of(run, axes, **more) -> tuple:
    plan = bf.sweeps.Plan.of(run, axes, ["final_loss"], **more)
    values = {name: axis.values for name, axis in plan.axes.items()}
    return tuple(_keys.keys(plan.shared_word(), values, np.zeros((1, len(values)), int), plan.seeds)[0].tolist())


def test_a_key_does_not_depend_on_how_the_run_is_asked_for() -> None:
    key = key_of({**BASE, "slope": 0.25}, {"width": [50]})
    assert key == key_of({**BASE, "width": 50}, {"slope": [0.25]})
    assert key == key_of({**BASE, "offset": 0.15}, {"slope": [0.25], "width": [50.0]})  # the generator's default
    assert key == key_of({**BASE, "until": 1.0, "init_scale": 0.001}, {"width": [50], "slope": [0.25]})


def test_data_count_by_their_bytes_not_by_their_file(tmp_path) -> None:
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("x,y\n1,2\n-1,1\n")
    keys = {
        key_of({"data": str(tmp_path / n), "target": "y", "until": 1}, {"width": [5]}) for n in ("one.csv", "two.csv")
    }
    keys.add(key_of({"data": bf.Dataset([[1.0], [-1.0]], [2.0, 1.0]), "until": 1}, {"width": [5]}))
    assert len(keys) == 1


def test_generators_as_an_axis() -> None:
    found = bf.sweep({"until": 1, "width": 4}, {"data": ["xor", "six_points"]}, keep=["best_possible_loss"])
    assert found.dataset.data.to_numpy().tolist() == ["xor", "six_points"]
    with pytest.raises(ValueError, match="needs 'pairs'"):  # 1000 for one, 100 for the other
        bf.sweep({"until": 1}, {"data": ["symmetric_gaussian", "depth_separation"]}, keep=["best_possible_loss"])


def test_a_key_depends_on_everything_else(monkeypatch) -> None:
    keys = [
        key_of(BASE, {"width": [50]}),
        key_of(BASE, {"width": [51]}),
        key_of(BASE, {"width": [50]}, seeds=[1]),
        key_of({**BASE, "until": 1 + 1e-15}, {"width": [50]}),
        key_of({**BASE, "offset": 0.1}, {"width": [50]}),
        key_of({**BASE, "method": "dopri8"}, {"width": [50]}),
    ]
    for targets in ([1.0, -1.0], [1.0, np.nextafter(-1.0, 0)]):
        data = bf.Dataset([[1.0, 0.0], [0.0, 2.0]], targets)
        keys.append(key_of({"data": data, "until": 1}, {"width": [50]}))
    monkeypatch.setattr(_keys, "numerics", lambda: "another version")
    keys.append(key_of(BASE, {"width": [50]}))
    assert len(set(keys)) == len(keys)


def test_a_function_is_known_by_its_source_and_its_surroundings() -> None:
    def made(factor: float):
        def run(a: float) -> float:
            return factor * a

        return run

    digests = [_keys.function_digest(made(1.0)), _keys.function_digest(made(2.0)), _keys.function_digest(own_runs.wave)]
    assert len(set(digests)) == 3
    assert digests[0] == _keys.function_digest(made(1.0))


def test_larger_sweeps_compute_only_what_is_new(tmp_path) -> None:
    first = bf.sweep(own_runs.wave, {"a": [0.1, 0.2], "b": [1.0]}, seeds=2, folder=tmp_path / "runs")
    assert (first.tally.computed, first.tally.reused) == (4, 0)
    wider = bf.sweep(own_runs.wave, {"b": [2.0, 1.0], "a": [0.2, 0.1, 0.3]}, seeds=3, folder=tmp_path / "runs")
    assert (wider.tally.computed, wider.tally.reused) == (14, 4)
    alone = bf.sweep(own_runs.wave, {"b": [2.0, 1.0], "a": [0.2, 0.1, 0.3]}, seeds=3)
    assert wider.dataset.equals(alone.dataset)
    # Another quantity needs the runs again; one less does not.
    kept = {"folder": tmp_path / "flows"}
    run, axes = {"data": "xor", "width": 6, "until": 1}, {"slope": [0.0]}
    assert bf.sweep(run, axes, keep=["final_loss"], **kept).tally.computed == 1
    assert bf.sweep(run, axes, keep=["final_loss", "status"], **kept).tally.computed == 1
    assert bf.sweep(run, axes, keep=["status"], **kept).tally.computed == 0


def test_damaged_files_are_removed_reported_and_computed_again(tmp_path) -> None:
    folder = tmp_path / "runs"
    axes = {"a": [0.1 * i for i in range(12)], "b": [1.0, 3.0]}
    whole = bf.sweep(own_runs.wave, axes, seeds=2, folder=folder)
    files = sorted(folder.glob("batch-*.npz"))
    assert len(files) >= 3
    files[0].write_bytes(files[0].read_bytes()[:100])  # cut
    raw = bytearray(files[1].read_bytes())
    raw[len(raw) // 2] ^= 1  # one bit
    files[1].write_bytes(bytes(raw))
    files[2].write_bytes(b"")
    (folder / ".batch-half.npz").write_bytes(b"half written")
    again = bf.sweep(own_runs.wave, axes, seeds=2, folder=folder)
    assert sorted(again.tally.damaged) == [file.name for file in files[:3]]
    assert "3 batch files" in str(again)
    assert 0 < again.tally.computed < 48
    assert again.dataset.equals(whole.dataset)
    assert not (folder / ".batch-half.npz").exists()
    assert bf.sweep(own_runs.wave, axes, seeds=2, folder=folder).tally.computed == 0


def test_many_files_become_few_and_lose_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_store, "_MOST_FILES", 30)
    monkeypatch.setattr(_store, "_MERGED", 20)
    rng = np.random.default_rng(0)
    with _store.locked(tmp_path / "runs") as store:
        for i in range(60):
            columns = {"x": np.array([float(i)]), "word": np.array([f"word {i % 3}"], dtype=object)}
            keys = rng.integers(0, 2**63, size=(1, 2)).astype(np.uint64)
            store.write(_store.Batch(keys, np.array([1], np.uint8), np.array([""], dtype=object), columns))
            assert len(list((tmp_path / "runs").iterdir())) < 34
        (whole,) = _store.joined(list(store.read()))
    assert sorted(whole.columns["x"]) == [float(i) for i in range(60)]
    assert all(whole.columns["word"] == [f"word {int(x) % 3}" for x in whole.columns["x"]])


def test_a_full_disk_keeps_what_was_done(tmp_path) -> None:
    """A write that the system cuts off in the middle: the largest file size allowed is below a batch's."""
    import resource
    import signal

    folder = tmp_path / "runs"
    axes = {"a": [0.1 * i for i in range(20)], "b": [1.0]}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    written = 0

    def fill(progress) -> None:
        nonlocal written
        written = len(list(folder.glob("batch-*.npz")))
        if written == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))

    try:
        with pytest.raises(StoreError, match="make room, and the same command goes on"):
            bf.sweep(own_runs.wave, axes, folder=folder, progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert written == 2
    kept = [path for path in folder.iterdir() if path.name != "lock"]
    assert len(kept) == 2
    assert all(zipfile.is_zipfile(path) for path in kept)
    found = bf.sweep(own_runs.wave, axes, folder=folder)
    assert found.tally.reused > 0
    assert found.dataset.equals(bf.sweep(own_runs.wave, axes).dataset)


def test_two_sweeps_in_one_folder_the_second_refuses(tmp_path) -> None:
    with _store.locked(tmp_path / "runs"), pytest.raises(ValueError, match="another sweep is at work"):
        bf.sweep(own_runs.wave, {"a": [0.1], "b": [1.0]}, folder=tmp_path / "runs")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot use the folder"):
        bf.sweep(own_runs.wave, {"a": [0.1], "b": [1.0]}, folder=tmp_path / "file")


def test_failures_that_may_pass_are_tried_again(tmp_path) -> None:
    tried = tmp_path / "tried"

    def moody(a: float, where: str = str(tried)) -> float:
        if not os.path.exists(where):  # noqa: PTH110
            open(where, "w").close()  # noqa: PTH123
            raise MemoryError("no memory just now")
        return a

    first = bf.sweep(moody, {"a": [1.0, 2.0]}, folder=tmp_path / "runs")
    assert list(first.failures) == ["MemoryError: no memory just now"]
    second = bf.sweep(moody, {"a": [1.0, 2.0]}, folder=tmp_path / "runs")
    assert (second.tally.computed, second.failures) == (1, {})
