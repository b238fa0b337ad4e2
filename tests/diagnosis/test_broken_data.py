"""Broken, hostile and awkward data files: exit code 2 and one sentence, or an answer that says what was done."""

import gzip
import io
import json
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import biasfree as bf
from biasfree import cli
from biasfree.diagnosis._baselines import least_squares
from biasfree.diagnosis._treatment import treat
from tests.models.test_broken_models import npy, npz

RNG = np.random.default_rng(0)
INPUTS, TARGETS = RNG.normal(size=(6, 2)), RNG.normal(size=6)


def csv(*rows: str) -> bytes:
    return "\n".join(rows).encode() + b"\n"


def parquet(**columns) -> bytes:
    stream = io.BytesIO()
    pd.DataFrame(columns).to_parquet(stream)
    return stream.getvalue()


PARQUET = parquet(a=INPUTS[:, 0], b=INPUTS[:, 1], target=TARGETS)
ARCHIVE = npz(inputs=INPUTS, targets=TARGETS)
ROWS = [f"{a},{b},{y}" for (a, b), y in zip(INPUTS, TARGETS, strict=True)]
OBJECTS = np.array([{"a": 1}, None], dtype=object)

# name → (file, content, words the sentence must hold)
CORPUS: dict[str, tuple[str, bytes, str]] = {
    # CSV
    "nothing": ("d.csv", b"", "empty"),
    "only a newline": ("d.csv", b"\n", "empty"),
    "header only": ("d.csv", csv("a,b,target"), "no rows"),
    "no target column": ("d.csv", csv("a,b,c", *ROWS), "--target"),
    "target only": ("d.csv", csv("target", "1", "2"), "no input column"),
    "truncated in a row": ("d.csv", csv("a,b,target", *ROWS)[:-40], "missing"),
    "truncated in quotes": ("d.csv", b'a,b,target\n1,"2,3', ""),
    "NaN": ("d.csv", csv("a,b,target", *ROWS, "nan,1,2"), "missing or undefined"),
    "infinity": ("d.csv", csv("a,b,target", *ROWS, "inf,1,2"), "must be finite"),
    "a number beyond all": ("d.csv", csv("a,b,target", *ROWS, "1e999,1,2"), "must be finite"),
    "missing target": ("d.csv", csv("a,b,target", *ROWS, "1,2,"), "1 missing"),
    "a stray word": ("d.csv", csv("a,b,target", *ROWS, "oops,1,2"), "'oops' in row 7"),
    "categories": ("d.csv", csv("a,colour,target", "1,red,2", "2,green,3", "3,red,1"), "get_dummies"),
    "dates": ("d.csv", csv("day,target", "2024-01-02,2", "2024-02-03,3"), "not numeric"),
    "packed, cut off": ("d.csv.gz", gzip.compress(csv("a,b,target", *ROWS))[:-20], "gzip"),
    "packed in name only": ("d.csv.gz", csv("a,b,target", *ROWS), "gzip"),
    "packed NPZ": ("d.npz.gz", b"", "must end in"),
    "another separator within": ("d.csv", csv("a;b;target", "1;2;3", "1;2;3;4;5"), "--sep"),
    "ragged rows, longer": ("d.csv", csv("a,b,target", *ROWS, "1,2,3,4,5"), "same number of entries"),
    "ragged rows, shorter": ("d.csv", csv("a,b,target", "1", "2"), "column names"),
    "same name twice": ("d.csv", csv("a,a,target", *ROWS), "more than one column named 'a'"),
    "a column without a name": ("d.csv", csv(",b,target", *ROWS), "has no name"),
    "NUL bytes": ("d.csv", b"a,b,target\n1,\0\0,3\n2,3,4\n", ""),
    "NUL bytes throughout": ("d.csv", bytes(5000), ""),
    "binary rubbish": ("d.csv", RNG.bytes(5000), "UTF-8"),
    "UTF-16": ("d.csv", "a,b,target\n1,2,3\n".encode("utf-16"), "UTF-8"),
    "Latin-1": ("d.csv", "größe,b,target\n1,2,3\n".encode("latin-1"), "UTF-8"),
    "an archive called CSV": ("d.csv", ARCHIVE, ""),
    "a picture called CSV": ("d.csv", b"\x89PNG\r\n\x1a\n" + RNG.bytes(300), "UTF-8"),
    "ten thousand columns, none the target": ("d.csv", csv(",".join(f"c{i}" for i in range(10_000))), "9988 more"),
    "ten thousand equal names": (
        "d.csv",
        csv(",".join(["target"] * 10_000), ",".join(["1"] * 10_000)),
        "more than one",
    ),
    "a very long line": ("d.csv", b"a,b,target\n1,2,3\n" + b"x" * 20_000_000 + b",2,3\n", "not numeric"),
    "a very long name": ("d.csv", b"a" * 1_000_000 + b",target\nred,2\n", "not numeric"),
    "all inputs zero": ("d.csv", csv("a,b,target", "0,0,1", "0,0,2"), "all inputs are zero"),
    "all targets zero": ("d.csv", csv("a,b,target", "1,2,0", "2,3,0"), "nothing to learn"),
    "numbers beyond squaring": ("d.csv", csv("a,b,target", "1e200,1,2", "1,1e250,3", "1,2,3"), "rescale"),
    # NPZ
    "NPZ, empty file": ("d.npz", b"", "as NPZ"),
    "NPZ, empty archive": ("d.npz", npz(), "it holds: nothing"),
    "NPZ, truncated": ("d.npz", ARCHIVE[:-60], "as NPZ"),
    "NPZ, truncated early": ("d.npz", ARCHIVE[:100], "as NPZ"),
    "NPZ, damaged": ("d.npz", ARCHIVE.replace(INPUTS.tobytes()[:8], b"abcdefgh"), "as NPZ"),
    "NPZ, rubbish": ("d.npz", RNG.bytes(500), "as NPZ"),
    "NPZ, a bare array": ("d.npz", npy((2,), data=bytes(16)), "as NPZ"),
    "NPZ, objects": ("d.npz", npz(inputs=OBJECTS, targets=TARGETS), "plain numeric arrays"),
    "NPZ, a pickle inside": ("d.npz", npz(inputs=b"\x80\x04N.", targets=TARGETS), "as NPZ"),
    "NPZ, words": ("d.npz", npz(inputs=np.array([["a", "b"]]), targets=TARGETS), "numeric"),
    "NPZ, complex": ("d.npz", npz(inputs=INPUTS + 1j, targets=TARGETS), "numeric"),
    "NPZ, no targets": ("d.npz", npz(inputs=INPUTS), "no array 'targets'"),
    "NPZ, other length": ("d.npz", npz(inputs=INPUTS, targets=TARGETS[:3]), "same length"),
    "NPZ, three axes": ("d.npz", npz(inputs=np.ones((2, 2, 2)), targets=np.ones(2)), ""),
    "NPZ, several outputs": ("d.npz", npz(inputs=INPUTS, targets=np.zeros((6, 2))), "nothing to learn"),
    "NPZ, NaN": ("d.npz", npz(inputs=np.full((6, 2), np.nan), targets=TARGETS), "must be finite"),
    "NPZ, no samples": ("d.npz", npz(inputs=np.ones((0, 2)), targets=np.ones(0)), "at least one sample"),
    "NPZ, a huge declared shape": ("d.npz", npz(inputs=npy((2**40, 2)), targets=TARGETS), "as NPZ"),
    "NPZ, columns that differ": ("d.npz", npz(a=np.ones(3), target=np.ones(4)), "differ in length"),
    # Parquet
    "Parquet, empty file": ("d.parquet", b"", "as Parquet"),
    "Parquet, truncated": ("d.parquet", PARQUET[:-100], "as Parquet"),
    "Parquet, rubbish": ("d.parquet", b"PAR1" + RNG.bytes(200) + b"PAR1", "as Parquet"),
    "Parquet, words": ("d.parquet", parquet(a=["red", "green"], target=[1.0, 2.0]), "get_dummies"),
    "Parquet, missing": ("d.parquet", parquet(a=[1.0, None], target=[1.0, 2.0]), "1 missing"),
    "Parquet, lists": ("d.parquet", parquet(a=[[1.0], [2.0]], target=[1.0, 2.0]), "not numeric"),
    # Names
    "another ending": ("d.xlsx", b"a,target\n1,2\n", "must end in"),
}
LOGISTIC = {
    "three classes": (csv("a,target", "1,0", "2,1", "3,2"), "two classes, got 3"),
    "numbers instead of labels": (csv("a,target", "1,0.5", "2,1.5", "3,2.25", "4,7"), "use the square loss"),
    "one class": (csv("a,target", "1,1", "2,1"), "all labels are 1"),
}


def run(monkeypatch, capsys, *words: str) -> str:
    """Run the command line to its bad end; the sentence it leaves."""
    begun = time.process_time()
    monkeypatch.setattr(sys, "argv", ["biasfree", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    assert time.process_time() - begun < 5
    assert (ended.value.code, captured.out) == (2, "")
    told = captured.err.strip()
    assert told.startswith("biasfree: ")
    assert len(told.splitlines()) == 1
    assert len(told) < 500
    assert told.endswith(".")
    return told


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("model") / "m.npz"
    path.write_bytes(npz(W1=np.eye(2), W2=np.ones((1, 2))))
    return str(path)


@pytest.mark.parametrize("name", CORPUS)
def test_broken_data_end_with_a_sentence(name, monkeypatch, capsys, tmp_path, model) -> None:
    file, content, words = CORPUS[name]
    (tmp_path / file).write_bytes(content)
    told = run(
        monkeypatch, capsys, "diagnose", str(tmp_path / file), "--no-simulate", "--json", str(tmp_path / "o.json")
    )
    assert words in told
    assert not (tmp_path / "o.json").exists()
    # What inspect needs of data is that their inputs can be read.
    fine = {"all inputs zero", "all targets zero", "numbers beyond squaring", "NPZ, several outputs", "NPZ, no targets"}
    if name not in fine:
        run(monkeypatch, capsys, "inspect", model, "--data", str(tmp_path / file))


@pytest.mark.parametrize("name", LOGISTIC)
def test_labels_the_logistic_loss_cannot_take(name, monkeypatch, capsys, tmp_path) -> None:
    content, words = LOGISTIC[name]
    (tmp_path / "d.csv").write_bytes(content)
    assert words in run(monkeypatch, capsys, "diagnose", str(tmp_path / "d.csv"), "--loss", "logistic", "--no-simulate")


def test_paths_that_are_no_files(monkeypatch, capsys, tmp_path, model) -> None:
    (tmp_path / "folder.csv").mkdir()
    for path, words in ((tmp_path / "none.csv", "no file at"), (tmp_path / "folder.csv", "not a file")):
        assert words in run(monkeypatch, capsys, "diagnose", str(path))
        assert words in run(monkeypatch, capsys, "inspect", model, "--data", str(path))
    assert "Did you mean 'xor'" in run(monkeypatch, capsys, "diagnose", "xorr")
    (tmp_path / "d.csv").write_bytes(csv("a,b,c,target", "1,2,3,4"))
    run(monkeypatch, capsys, "inspect", model, "--data", str(tmp_path / "d.csv"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read as Linux tells it")
def test_bombs_take_neither_time_nor_memory(tmp_path) -> None:
    """In a process of their own, with the memory that it reached, imports included."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    zeros = bytes(400_000_000)
    bombs = {
        "zip.npz": npz(zipfile.ZIP_DEFLATED, inputs=npy((50_000, 1000), data=zeros), targets=TARGETS),
        "shape.npz": npz(inputs=npy((2**40, 2)), targets=TARGETS),
        "large.npz": npz(inputs=npy((10**8, 2)), targets=TARGETS),
    }
    del zeros
    for name, data in bombs.items():
        (tmp_path / name).write_bytes(data)
    many = pa.table({f"c{i}": np.zeros(1_000_000) for i in range(20)})
    with pq.ParquetWriter(tmp_path / "rows.parquet", many.schema) as writer:
        for _ in range(8):  # 1.3 GB if it were read
            writer.write_table(many)
    assert (tmp_path / "rows.parquet").stat().st_size < 10_000_000
    (tmp_path / "line.csv").write_bytes(b"a,target\n1,2\n" + b"9" * 50_000_000 + b",2\n")
    code = """
import sys, time
from biasfree import datasets
for path in sys.argv[1:]:
    begun = time.process_time()
    try:
        datasets.load(path)
    except ValueError as error:
        assert time.process_time() - begun < 5, path
        assert len(str(error).splitlines()) == 1, error
    else:
        raise SystemExit(f"{path} was read")
# Its own peak: what getrusage tells may be that of the process it was forked from.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    paths = [str(tmp_path / name) for name in (*bombs, "rows.parquet", "line.csv")]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < 1_000_000_000


# What can be treated: the words of the treatment, or of what is worth knowing.
AWKWARD: dict[str, tuple[np.ndarray, np.ndarray, tuple[str, ...], str]] = {
    "a constant column": (np.column_stack([INPUTS, np.ones(6)]), TARGETS, (), "Stacked ones act as"),
    "a column of zeros": (np.column_stack([INPUTS, np.zeros(6)]), TARGETS, (), "Zero throughout"),
    "wild scales": (INPUTS * [1.0, 1e4], TARGETS, (), "--standardise"),
    "off the origin": (INPUTS + 5.0, TARGETS, (), "off the origin"),
    "fewer samples than dimensions": (RNG.normal(size=(3, 5)), TARGETS[:3], (), "fewer samples (3) than dimensions"),
    "one sample": (INPUTS[:1], TARGETS[:1], (), "fewer samples (1)"),
    "repeated rows": (np.repeat(INPUTS, 2, axis=0), RNG.normal(size=12), (), "6 of 12 samples repeat"),
    "one dimension": (INPUTS[:, :1], TARGETS, (), "two straight lines"),
    "labels 0 and 1": (INPUTS, np.array([0, 1, 0, 1, 1, 0]), ("--loss", "logistic"), "read as −1 and +1"),
    "standardised": (INPUTS * [1.0, 1e4] + 5, TARGETS, ("--standardise",), "Moving the origin"),
    "a constant target": (INPUTS, np.full(6, 3.0), (), "All targets are 3"),
    "a few whole numbers": (INPUTS, np.array([0, 1, 2, 0, 1, 2]), (), "3 different values"),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_data_are_answered_with_a_note(name, tmp_path) -> None:
    inputs, targets, options, words = AWKWARD[name]
    np.savez(tmp_path / "d.npz", inputs=inputs, targets=targets)
    out = tmp_path / "o.json"
    words_given = ["diagnose", str(tmp_path / "d.npz"), "--no-simulate", "--seeds", "1", "--width", "20", *options]
    done = CliRunner().invoke(cli.app, [*words_given, "--json", str(out)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert words in done.output
    found = json.loads(out.read_text(encoding="utf-8"))
    assert any(words in note for note in found["notes"])
    assert found["verdict"] in ("linear", "linear until", "several linear networks", "nonlinear")


def test_standardising_is_what_it_says() -> None:
    """Against numpy's own, and against scikit-learn's loss with an intercept: centring stands in for one here."""
    from sklearn.linear_model import LinearRegression

    inputs = RNG.normal(size=(30, 2)) * [1.0, 3.0] + [2.0, -1.0]
    targets = RNG.normal(size=30)
    targets -= targets.mean()
    treated = treat(bf.Dataset(inputs, targets), "square", standardise=True).dataset
    np.testing.assert_allclose(treated.inputs, (inputs - inputs.mean(axis=0)) / inputs.std(axis=0), atol=1e-14)
    fitted = LinearRegression().fit(inputs, targets).predict(inputs)
    assert least_squares(treated, ones=False).loss == pytest.approx(0.5 * np.mean((targets - fitted) ** 2), rel=1e-12)
