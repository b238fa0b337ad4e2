"""``biasfree inspect`` on the command line: what it prints and writes."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import biasfree as bf
from biasfree import cli
from biasfree.inspection import inspect
from tests.models.make_models import FOLDER


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call the program with arguments, in an empty folder; gives exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["biasfree", "inspect", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


def test_everything_it_is_asked_to_write(run, tmp_path) -> None:
    network = bf.Network.rank_one(2, 30, 0.0, 1.0, 0)
    network.save("n.npz")
    code, out, err = run(
        "n.npz", "--data", "six-points", "--json", "a.json", "--html", "a.html", "--compress", "small.npz"
    )
    assert (code, err) == (0, "")
    assert "It is linear" in out
    assert max(map(len, out.splitlines())) < 200
    assert len(out.splitlines()) < 32
    told = json.loads((tmp_path / "a.json").read_text())
    assert told["bias_free"] is told["homogeneous"] is told["linear"] is True
    np.testing.assert_allclose(told["linear_map"], inspect(network).linear_map, rtol=1e-12)
    assert told["distance_from_linear"] < 1e-12
    assert told["certified_bound"] < 1e-12
    assert told["neurons_after_merging"] == 2
    assert [layer["layer"] for layer in told["layers"]] == [1, 2]
    assert [layer["rank"] for layer in told["layers"]] == [1, 1]
    assert told["layers"][0]["imbalance"] < 1e-12
    assert max(layer["residual"] for layer in told["layers"]) < 1e-12
    small = bf.Network.load(tmp_path / "small.npz")
    x = np.random.default_rng(0).normal(size=(100, 2))
    np.testing.assert_allclose(small(x), network(x), atol=1e-12 * float(np.abs(network(x)).max()))
    page = (tmp_path / "a.html").read_text()
    assert "data:image/png;base64" in page
    for outside in ("http://", "https://", "<script", "src='/"):
        assert outside not in page
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "a.json", "n.npz", "small.npz"]


def test_onnx_with_biases_and_a_slope_of_ones_own(run) -> None:
    code, out, _ = run(str(FOLDER / "biases_float64.onnx"), "--json", "b.json", "--compress", "b.npz")
    assert code == 0
    assert "It has biases in layers 1, 2" in out
    told = json.loads(Path("b.json").read_text())
    assert told["bias_free"] is told["homogeneous"] is told["linear"] is False
    assert told["certified_bound"] is None
    again = inspect("b.npz")
    original = inspect(FOLDER / "biases_float64.onnx")
    x = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(again.graph(x), original.graph(x), atol=1e-13)
    np.savez("plain.npz", W1=np.eye(2), W2=np.ones((1, 2)))
    code, out, _ = run("plain.npz", "--slope", "0.5")
    assert code == 0
    assert "slope 0.5" in out


def test_the_same_seed_gives_the_same_answer(run) -> None:
    bf.Network.init([5, 8, 8, 1], 0.0, 1.0, 0).save("n.npz")
    texts = []
    for name in ("a.json", "b.json"):
        assert run("n.npz", "--seed", "3", "--json", name)[0] == 0
        texts.append(json.loads(Path(name).read_text()))
    assert texts[0] == texts[1]
    assert texts[0]["exact_maximum"]["finished"]


def test_the_picture_shows_outputs_and_singular_values() -> None:
    from biasfree import report

    found = inspect(bf.Network.init([3, 6, 6, 1], 0.0, 1.0, 0))
    shares, spectra = found.plot().axes
    assert len(shares.lines) == 2
    np.testing.assert_allclose(shares.lines[0].get_ydata(), np.sort(found.share.per_sample_distance))
    # One output: slopes of all samples looked at, and the best linear map.
    assert len(spectra.lines) == len(found.local.maps) + 1
    several = inspect(bf.Network.init([3, 6, 2], 0.0, 1.0, 0))
    curves = several.plot().axes[1].lines
    np.testing.assert_allclose(curves[0].get_ydata(), several.local.maps[0].singular_values)
    (layers,) = [p for s in found.sections for p in s.pictures if p.kind == "layers"]
    left, right = report.draw(layers).axes
    assert len(left.lines) == 2
    assert len(right.lines) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--json", "a.txt"), "must end in .json"),
        (("--html", "no/a.html"), "does not exist"),
        (("--compress", "a.pt"), "must end in .npz or .onnx"),
        (("--jointly",), "one input"),
        (("--slope", "2"), "slope must lie in"),
        (("--tolerance", "-1"), "tolerance"),
        (("--seed", "-1"), "seed"),
        (("--data", "xor2"), "unknown"),
        (("--data", "none.csv"), "no file"),
        (("--data", "symmetric-gaussian"), "dimension 2"),
        (("--data", "xor", "--target", "y"), "--target"),
    ],
)
def test_bad_options(run, arguments, sentence, tmp_path) -> None:
    bf.Network.init([2, 3, 1], 0.0, 1.0, 0).save("n.npz")
    code, out, err = run("n.npz", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["n.npz"]


def test_images_with_a_noise_map_on_the_command_line(run, tmp_path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 1, 8, 8))
    np.savez("d.npz", x=x, noise=np.full_like(x, 0.1))
    code, out, _ = run(str(FOLDER / "unet.onnx"), "--data", "d.npz", "--jointly", "--json", "a.json")
    assert code == 0
    assert "positively homogeneous in all its inputs jointly" in out
    told = json.loads((tmp_path / "a.json").read_text())
    assert told["homogeneity"]["error"] < 1e-12
    assert told["homogeneity"]["jointly"] is True
    assert [port["name"] for port in told["model"]["inputs"]] == ["x", "noise"]
    assert len(told["local_maps"]["samples"][0]["singular_values"]) == 64
    code, out, _ = run(str(FOLDER / "unet.onnx"), "--data", "d.npz")
    assert "in the first input, the others held fixed" in out
    assert "With `jointly` (--jointly) all inputs are scaled." in out
    code, out, err = run(str(FOLDER / "unet.onnx"), "--data", "d.npz", "--compress", "small.onnx")
    assert (code, out) == (2, "")
    assert "only fully connected chains are compressed" in err
    np.save("x.npy", x)
    code, _, err = run(str(FOLDER / "unet.onnx"), "--data", "x.npy")
    assert code == 2
    assert "takes 2 inputs" in err


def test_tables_need_no_column_to_predict(run) -> None:
    bf.Network.init([2, 3, 1], 0.0, 1.0, 0).save("n.npz")
    inputs = np.random.default_rng(0).normal(size=(20, 2))
    table = pd.DataFrame(inputs, columns=["a", "b"])
    table.to_csv("inputs.csv", index=False)
    table.assign(target=1.0).to_csv("known.tsv", sep="\t", index=False)
    table.assign(price=1.0).to_csv("other.csv", sep=";", index=False)
    heads = [run("n.npz", "--data", *words)[1].splitlines()[1] for words in (
        ("inputs.csv",), ("known.tsv",), ("other.csv", "--target", "price")
    )]  # fmt: skip
    expected = inspect("n.npz", inputs).headline.removeprefix("On the data")
    assert [head.split(" it is ")[1] for head in heads] == [expected.split(" it is ")[1]] * 3
    code, _, err = run("n.npz", "--data", "other.csv")
    assert code == 2
    assert "has 3 columns (a, b, price), and the model takes 2 inputs" in err


def test_the_practical_sentence_then_the_certificate_then_details(run) -> None:
    bf.Network.init([2, 5, 1], 0.0, 1.0, 0).save("n.npz")
    lines = run("n.npz", "--data", "six-points")[1].splitlines()
    assert lines[1].startswith("On six points it is ")
    assert lines[3] == "For every input"
    assert lines[4].strip().startswith("Certified: |f(x) − Mx| ≤ ")
    assert lines.index("On the data") > 4


def test_compressed_networks_are_written_as_onnx(run) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    network = bf.Network.rank_one(3, 20, 0.0, 1.0, 0)
    network.save("n.npz")
    assert run("n.npz", "--compress", "small.onnx")[0] == 0
    x = np.random.default_rng(0).normal(size=(50, 3))
    session = runtime.InferenceSession("small.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x})[0][:, 0], np.asarray(network(x)), atol=1e-13)
    assert inspect("small.onnx").layers.widths == (3, 2, 1)
