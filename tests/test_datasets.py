"""Data sets: what they must contain, and the sentences for what they must not."""

import dataclasses
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from biasfree import Dataset, datasets

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


@given(hnp.arrays(float, (4, 3), elements=FINITE), hnp.arrays(float, 4, elements=FINITE))
def test_symmetrised_data_meets_condition_3(inputs: np.ndarray, targets: np.ndarray) -> None:
    data = Dataset(inputs, targets).symmetrised()
    rows = {(*x, y) for x, y in zip(data.inputs.tolist(), data.targets.tolist(), strict=True)}
    assert all((*(-v for v in row),) in rows for row in rows)
    np.testing.assert_allclose(data.covariance, Dataset(inputs, targets).covariance, atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(data.correlation, Dataset(inputs, targets).correlation, atol=1e-12, rtol=1e-12)


def test_data_is_frozen_and_does_not_follow_the_callers_array() -> None:
    inputs = np.ones((2, 2))
    data = Dataset(inputs, [1.0, 2.0])
    inputs[0, 0] = 7.0
    assert data.inputs[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        data.inputs[0, 0] = 3.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]


def test_vector_targets() -> None:
    data = Dataset(np.eye(3), np.arange(6.0).reshape(3, 2))
    assert data.outputs == 2
    np.testing.assert_allclose(data.correlation, np.arange(6.0).reshape(3, 2).T / 3)


def test_six_points_are_those_of_appendix_g() -> None:
    data = datasets.six_points()
    assert data.inputs.tolist() == [[1, 1], [-1, -1], [1, -1], [-1, 1], [-1, 0], [1, 0.15]]
    # The least-squares loss is a landmark of the paper's figure.
    solution = np.linalg.solve(data.covariance, data.correlation)
    assert 0.5 * np.mean((data.targets - data.inputs @ solution) ** 2) == pytest.approx(0.443615, abs=1e-6)
    assert datasets.six_points(offset=0.0).inputs[-1].tolist() == [1, 0]


def test_orthogonal_pair_is_orthogonal_and_xor_is_not_linearly_separable() -> None:
    first, second = datasets.orthogonal_pair().inputs
    assert first @ second == 0
    labelled = datasets.xor().inputs * datasets.xor().targets[:, None]
    # On either side of any line through the origin there are points of both labels.
    angles = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    assert (labelled @ directions.T).min(axis=0).max() <= 1e-12


@pytest.mark.parametrize("target", ["linear", "linear_plus_sine"])
def test_symmetric_gaussian_targets(target: str) -> None:
    data = datasets.symmetric_gaussian(dim=4, pairs=50, target=target, seed=7)
    half = data.targets[:50]
    np.testing.assert_array_equal(half, -data.targets[50:])
    rest = half - data.inputs[:50] @ np.linalg.lstsq(data.inputs[:50], half, rcond=None)[0]
    assert (np.abs(rest).max() < 1e-12) == (target == "linear")
    called = datasets.symmetric_gaussian(dim=4, pairs=50, target=lambda x: x[:, 0] ** 3, seed=7)
    np.testing.assert_array_equal(called.targets, called.inputs[:, 0] ** 3)


def test_seeds_give_the_same_bytes_and_streams_of_their_own() -> None:
    assert datasets.separable(seed=3).inputs.tobytes() == datasets.separable(seed=3).inputs.tobytes()
    assert datasets.separable(seed=3).inputs.tobytes() != datasets.separable(seed=4).inputs.tobytes()
    # Weights drawn from the same whole-number seed must not be a copy of the inputs.
    drawn = np.random.default_rng(3).normal(size=10)
    assert not np.allclose(datasets.symmetric_gaussian(seed=3).inputs[0, :10], drawn)
    shared = datasets.symmetric_gaussian(seed=np.random.default_rng(3))
    np.testing.assert_array_equal(shared.inputs[0, :10], drawn)


@given(st.integers(1, 6), st.integers(1, 30), st.floats(0, 3), st.booleans(), st.integers(0, 1000))
def test_separable_is(dim: int, samples: int, margin: float, symmetric: bool, seed: int) -> None:
    data = datasets.separable(dim, samples, margin, symmetric, seed=seed)
    signed = data.inputs * data.targets[:, None]
    # A perceptron finds a separating direction when the margin is positive.
    if margin > 0.05:
        w = np.zeros(dim)
        for _ in range(20000):
            worst = np.argmin(signed @ w)
            if signed[worst] @ w > 0:
                break
            w = w + signed[worst]
        assert (signed @ w > 0).all()


def test_depth_separation_target_is_odd_homogeneous_and_not_linear() -> None:
    for points in ("gaussian", "circle"):
        data = datasets.depth_separation(50, points, seed=1)
        np.testing.assert_array_equal(data.targets[:50], -data.targets[50:])
        fit = np.linalg.lstsq(data.inputs, data.targets, rcond=None)[0]
        assert np.abs(data.targets - data.inputs @ fit).max() > 0.1


def test_digits_come_without_network() -> None:
    data = datasets.digits((0, 1))
    assert data.inputs.shape == (360, 64)
    assert set(data.targets) == {-1.0, 1.0}
    assert data.inputs.min() >= 0
    assert data.inputs.max() <= 1


def test_all_ten_digits_iris_and_wine_are_scikit_learn_s() -> None:
    import sklearn.datasets

    for data, bunch, scale in (
        (datasets.digits(), sklearn.datasets.load_digits(), 16),
        (datasets.iris(), sklearn.datasets.load_iris(), 1),
        (datasets.wine(), sklearn.datasets.load_wine(), 1),
    ):
        np.testing.assert_array_equal(data.inputs * scale, bunch.data)
        np.testing.assert_array_equal(data.labels, bunch.target)
        assert data.classes == tuple(str(name) for name in bunch.target_names)
        assert data.targets.sum(axis=1).tolist() == [1.0] * data.samples
    some = datasets.digits((7, 3, 1))
    assert some.classes == ("7", "3", "1")
    assert some.name == "digits 7, 3 and 1"
    np.testing.assert_array_equal(some.labels == 0, np.array(some.classes)[some.labels] == "7")
    assert datasets.digits((3, 8)).targets.ndim == 1


@pytest.mark.parametrize("name", sorted(datasets.BUILTIN))
def test_builtin_names(name: str) -> None:
    assert datasets.builtin(name, seed=1).samples >= 2
    assert datasets.builtin(name.replace("-", "_")).dim >= 2


class TestFiles:
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6], "y": [1, -1, 1]})

    def test_every_format_gives_the_same_data(self, tmp_path) -> None:
        self.table.to_csv(tmp_path / "d.csv", index=False)
        self.table.to_parquet(tmp_path / "d.parquet")
        np.savez(tmp_path / "d.npz", inputs=self.table[["a", "b"]], targets=self.table["y"])
        np.savez(tmp_path / "columns.npz", a=self.table["a"], b=self.table["b"], y=self.table["y"])
        read = [datasets.load(tmp_path / "d.csv", "y"), datasets.load(tmp_path / "d.parquet", target="y")]
        read += [datasets.load(tmp_path / "d.npz"), datasets.load(tmp_path / "columns.npz", "y")]
        for data in read:
            np.testing.assert_array_equal(data.inputs, [[1, 4], [2, 5], [3, 6]])
            np.testing.assert_array_equal(data.targets, [1, -1, 1])

    def test_csv_without_header_and_with_spaces(self, tmp_path) -> None:
        (tmp_path / "d.csv").write_text("1, 2, 3\n4, 5, 6\n")
        data = datasets.load(tmp_path / "d.csv", target="2")
        np.testing.assert_array_equal(data.targets, [3, 6])
        (tmp_path / "d.csv").write_text("\ufeff a , my y \n1,2\n", encoding="utf-8")
        np.testing.assert_array_equal(datasets.load(tmp_path / "d.csv", target="my y").inputs, [[1]])

    @pytest.mark.parametrize(
        ("name", "content", "target", "sentence"),
        [
            ("missing.csv", None, "y", "no file at"),
            ("d.txt", "a,y\n1,2\n", "y", "must end in"),
            ("d.csv", "", "y", "it is empty"),
            ("d.csv", "a,y,y\n1,2,3\n", "y", "more than one column named 'y'"),
            ("d.csv", ",a,y\n0,1,2\n", "y", "column 1 of d.csv has no name"),
            ("d.csv", "a,b,y\n1,2\n", "y", "3 column names but 2 entries"),
            ("d.csv", "a,y\n1,2\n1,2,3\n", "y", "same number of entries"),
            ("d.csv", "a,y\n", "y", "no rows"),
            ("d.csv", "a,b\n1,2\n", "y", "no column 'y'"),
            ("d.csv", "a,b\n1,2\n", None, "Name the column to predict"),
            ("d.csv", "y\n1\n", "y", "no input column"),
            ("d.csv", "a,y\nred,2\n", "y", "not numeric"),
            ("d.csv", "a,y\n,2\n3,4\n", "y", "1 missing"),
            ("d.csv", "a,y\ninf,2\n3,4\n", "y", "must be finite"),
            ("d.csv", 'a,y\n"1,2\n', "y", "."),
            ("d.npz", "not a zip", None, "as NPZ"),
            ("d.parquet", "not parquet", "y", "as Parquet"),
        ],
    )
    def test_bad_files_get_a_sentence(self, tmp_path, name, content, target, sentence) -> None:
        if content is not None:
            (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=sentence):
            datasets.load(tmp_path / name, target)

    words = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [4, 5, 6], "z": [7, 8, 9], "kind": ["red", "blue", "red"]})

    def test_several_target_columns(self, tmp_path) -> None:
        self.words[["a", "y", "z"]].to_csv(tmp_path / "d.csv", index=False)
        self.words[["a", "y", "z"]].to_parquet(tmp_path / "d.parquet")
        read = [datasets.load(tmp_path / "d.csv", ["z", "y"]), datasets.load(tmp_path / "d.csv", "z, y")]
        for data in [*read, datasets.load(tmp_path / "d.parquet", ("z", "y"))]:
            np.testing.assert_array_equal(data.targets, [[7, 4], [8, 5], [9, 6]])
            np.testing.assert_array_equal(data.inputs, [[1], [2], [3]])
        assert read[0].origin["target"] == ["z", "y"]
        # A column whose own name holds a comma is that column.
        (tmp_path / "c.csv").write_text('a,"y,z"\n1,2\n3,4\n')
        assert datasets.load(tmp_path / "c.csv", "y,z").targets.tolist() == [2, 4]
        for wrong, sentence in (
            (["z", "q"], "no column 'q'"),
            (["z", "z"], "different columns"),
            ([], "at least one"),
            (["a", "y", "z"], "no input column"),
            ("z,q", "no column 'q'"),
        ):
            with pytest.raises(ValueError, match=sentence):
                datasets.load(tmp_path / "d.csv", wrong)

    def test_a_column_of_few_words_is_a_class_column_and_says_so(self, tmp_path) -> None:
        self.words.to_csv(tmp_path / "d.csv", index=False)
        self.words.to_parquet(tmp_path / "d.parquet")
        inputs = self.words[["a", "y", "z"]].to_numpy()
        np.savez(tmp_path / "d.npz", inputs=inputs, kind=self.words["kind"].to_numpy(dtype=str))
        for name in ("d.csv", "d.parquet", "d.npz"):
            data = datasets.load(tmp_path / name, "kind")
            assert data.classes == ("blue", "red")
            assert data.labels.tolist() == [1, 0, 1]
            np.testing.assert_array_equal(data.inputs, inputs)
            assert "'kind' is taken for classes: 2 of them, blue, red" in data.origin["classes"]
        # Numbers are numbers unless they are asked for as classes.
        (tmp_path / "n.csv").write_text("a,y\n1,2\n3,0\n5,2\n")
        assert datasets.load(tmp_path / "n.csv", "y").targets.tolist() == [2, 0, 2]
        assert datasets.load(tmp_path / "n.csv", "y", classes=True).classes == ("0", "2")
        with pytest.raises(ValueError, match="not numeric"):
            datasets.load(tmp_path / "d.csv", "kind", classes=False)

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ("a,y\n1,red\n2,blue\n", "2 different entries in 2 rows"),
            ("a,y\n1,red\n2,red\n", "one class only"),
            ("a,y\n1,red\n2,\n3,blue\n4,red\n", "1 missing"),
            ("a,y\n1,red\n2,3\n3,4\n", "not numeric in 1 of 3"),
            ("a,y\nred,red\n1,blue\n2,red\n", "column 'a'"),
        ],
    )
    def test_bad_class_columns_get_a_sentence(self, tmp_path, content, sentence) -> None:
        (tmp_path / "d.csv").write_text(content)
        with pytest.raises(ValueError, match=sentence):
            datasets.load(tmp_path / "d.csv", "y")

    def test_pickled_arrays_are_refused(self, tmp_path) -> None:
        np.savez(tmp_path / "d.npz", inputs=np.array([{"a": 1}], dtype=object), targets=[1.0])
        with pytest.raises(ValueError, match="as NPZ"):
            datasets.load(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("inputs", "targets", "sentence"),
    [
        ([1.0, 2.0], [1.0, 2.0], r"reshape\(-1, 1\)"),
        (np.zeros((0, 2)), [], "at least one sample"),
        (np.zeros((2, 0)), [1, 2], "at least one sample"),
        ([[1.0], [2.0]], [1.0], "same length"),
        ([[np.nan], [2.0]], [1.0, 2.0], "must be finite"),
        ([[1.0], [2.0]], [1.0, np.inf], "targets must be finite"),
        ([["a"], ["b"]], [1.0, 2.0], "real numbers"),
        ([[1.0], [2.0, 3.0]], [1.0, 2.0], "real numbers"),
        ([[1j], [2.0]], [1.0, 2.0], "real numbers"),
        ([[1.0]], 3.0, "targets must have shape"),
    ],
)
def test_bad_arrays_get_a_sentence(inputs, targets, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        Dataset(inputs, targets)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: datasets.symmetric_gaussian(dim=0), "dim must be a whole number of at least 1"),
        (lambda: datasets.symmetric_gaussian(pairs=2.5), "whole number"),
        (lambda: datasets.symmetric_gaussian(target="linaer"), "Did you mean 'linear'"),
        (lambda: datasets.symmetric_gaussian(dim=5, pairs=3, whiten=True), "whitening"),
        (lambda: datasets.symmetric_gaussian(seed="zero"), "seed must be a number"),
        (lambda: datasets.symmetric_gaussian(seed=-1), "seed"),
        (lambda: datasets.depth_separation(points="cirle"), "Did you mean 'circle'"),
        (lambda: datasets.separable(margin=-1), "margin"),
        (lambda: datasets.digits((0, 0)), "two different digits"),
        (lambda: datasets.digits((0, 12)), "two different digits"),
        (lambda: datasets.builtin("six-point"), "Did you mean 'six-points'"),
    ],
)
def test_bad_settings_get_a_sentence(call, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


def test_an_archive_that_unpacks_to_hundreds_of_megabytes_is_not_read(tmp_path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("inputs.npy", "w") as member:
        for _ in range(300):
            member.write(bytes(2**20))
    with pytest.raises(ValueError, match="not taken for data"):
        datasets.load(path)
