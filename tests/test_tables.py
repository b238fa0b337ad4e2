"""Tables as people have them: separators, decimal commas, packed files, frames, arrays, categories, identifiers."""

import gzip

import numpy as np
import pandas as pd
import pytest

import biasfree as bf
from biasfree.datasets import as_dataset, from_table, load

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"size": RNG.normal(size=8), "age": RNG.normal(size=8), "price": RNG.normal(size=8)}).round(3)


def same(data: bf.Dataset) -> None:
    np.testing.assert_array_equal(data.inputs, FRAME[["size", "age"]])
    np.testing.assert_array_equal(data.targets, FRAME["price"])
    assert data.origin["columns"] == ("size", "age")


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_how_entries_are_written_is_found_out(tmp_path, sep, decimal, ending) -> None:
    if sep == decimal:
        pytest.skip("entries could not be separated")
    path = tmp_path / f"d.{ending}"
    FRAME.to_csv(path, sep=sep, decimal=decimal, index=False)
    found = load(path, "price")
    same(found)
    assert found.name == "d"
    same(load(path, "price", sep=sep, decimal=decimal))


def test_tsv_and_tables_without_names(tmp_path) -> None:
    FRAME.to_csv(tmp_path / "d.tsv", sep="\t", index=False)
    same(load(tmp_path / "d.tsv", "price"))
    (tmp_path / "bare.csv").write_text("1,5;2;3\n4;5,25;6\n", encoding="utf-8")
    found = load(tmp_path / "bare.csv", "2")
    np.testing.assert_array_equal(found.inputs, [[1.5, 2], [4, 5.25]])


def test_frames_paths_pairs_and_arrays_are_the_same_data(tmp_path) -> None:
    FRAME.to_parquet(tmp_path / "d.parquet")
    same(as_dataset(FRAME, "price"))
    same(as_dataset(tmp_path / "d.parquet", "price"))
    same(as_dataset(str(tmp_path / "d.parquet"), target="price"))
    same(as_dataset((FRAME[["size", "age"]], FRAME["price"])))
    plain = as_dataset((FRAME[["size", "age"]].to_numpy(), FRAME["price"].to_list()))
    np.testing.assert_array_equal(plain.inputs, FRAME[["size", "age"]])
    array = FRAME.to_numpy()
    np.testing.assert_array_equal(as_dataset(array).targets, FRAME["price"])
    np.testing.assert_array_equal(as_dataset(array, target="0").targets, FRAME["size"])
    given = bf.datasets.xor()
    assert as_dataset(given) is given


def test_several_targets_are_several_outputs() -> None:
    found = from_table(FRAME, ["size", "price"])
    np.testing.assert_array_equal(found.targets, FRAME[["size", "price"]])
    np.testing.assert_array_equal(found.inputs, FRAME[["age"]])
    assert found.origin["targets"] == ("size", "price")


def test_words_to_predict_are_classes() -> None:
    found = from_table(FRAME.assign(kind=["red", "blue"] * 4), "kind")
    assert found.classes == ("blue", "red")
    assert found.labels.tolist() == [1, 0] * 4
    assert found.origin["columns"] == ("size", "age", "price")


def test_columns_are_left_out_and_it_is_said() -> None:
    found = from_table(FRAME.assign(id=range(8), note="free text"), "price", drop=["id", "note"])
    same(found)
    assert found.origin["notes"] == ("Left out: columns id, note.",)


@pytest.mark.parametrize(
    ("column", "values", "noted"),
    [
        ("id", [5, 3, 9, 1, 2, 8, 7, 4], True),
        ("customer_id", [5, 3, 9, 1, 2, 8, 7, 4], True),
        ("anything", range(100, 108), True),
        ("rooms", [5, 3, 5, 1, 2, 8, 7, 4], False),
        ("rooms", [5, 3, 9, 1, 2, 8, 7, 4], False),
        ("ones", [1] * 8, False),
    ],
)
def test_identifiers_are_noted_and_kept(column, values, noted) -> None:
    found = from_table(FRAME.assign(**{column: list(values)}), "price")
    assert found.dim == 3
    assert bool(found.origin["notes"]) == noted
    if noted:
        assert f"--drop {column}" in found.origin["notes"][0]


def test_categories_by_one_hot_on_request() -> None:
    table = FRAME.assign(colour=["red", "green", "blue", "red"] * 2)
    with pytest.raises(ValueError, match=r"column 'colour' in table is not numeric .*--categories onehot"):
        from_table(table, "price")
    found = from_table(table, "price", categories="onehot")
    assert found.origin["columns"] == ("size", "age", "colour_blue", "colour_green", "colour_red")
    np.testing.assert_array_equal(found.inputs[:, 2:].sum(axis=1), 1)
    np.testing.assert_array_equal(found.inputs[:, 4], [1, 0, 0, 1] * 2)
    assert "3 columns of 0 and 1" in found.origin["notes"][0]
    with pytest.raises(ValueError, match="unknown categories 'ordinal'"):
        from_table(table, "price", categories="ordinal")
    names = FRAME.loc[FRAME.index.repeat(20)].assign(who=[f"name {i}" for i in range(160)])
    with pytest.raises(ValueError, match=r"160 different words.*--drop"):
        from_table(names, "price", categories="onehot")
    with pytest.raises(ValueError, match=r"names or free text: leave it out with `drop` \(--drop who\)"):
        from_table(names, "price")


@pytest.mark.parametrize(
    ("table", "options", "sentence"),
    [
        (FRAME.assign(age=[np.nan, *range(7)]), {"target": "price"}, "'age' in table has 1 missing.*Fill them in"),
        (FRAME, {"target": ["price", "price"]}, "different columns"),
        (FRAME, {"target": "cost"}, "no column 'cost'.*size, age, price"),
        (FRAME, {}, "Name the column to predict"),
        (FRAME, {"target": "price", "drop": "prize"}, "cannot leave out 'prize'"),
        (FRAME, {"target": "price", "drop": "price"}, "cannot be the target and be left out"),
        (FRAME, {"target": "price", "drop": ["size", "age"]}, "no input column"),
        (FRAME.assign(price=list("abcdefgh")), {"target": "price"}, "8 different entries in 8 rows"),
        (FRAME.iloc[:0], {"target": "price"}, "no rows"),
        (FRAME.assign(day=pd.date_range("2020-01-01", periods=8)), {"target": "price"}, "dates or times.*--drop day"),
        (FRAME.assign(day=[f"{k}.3.2021" for k in range(1, 9)]), {"target": "price"}, "dates or times.*--drop day"),
        (FRAME.assign(rate=[f"{k}.5%" for k in range(8)]), {"target": "price"}, "numbers with signs around them"),
        (FRAME.assign(price=[f"$1,{k}00" for k in range(8)]), {"target": "price"}, "numbers with signs around them"),
        (
            FRAME.assign(a=list("xyxyxyxy"), b=list("uvuvuvuv")),
            {"target": "price"},
            "'a'.*onehot.*Not numeric either: b",
        ),
    ],
)
def test_what_is_wrong_with_a_table_is_said(table, options, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        as_dataset(table, **options)


def test_wrong_styles_and_kinds_are_said(tmp_path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    for options, sentence in (
        ({"sep": "::"}, "one character"),
        ({"decimal": "x"}, r"decimal must be \. or ,"),
        ({"sep": ",", "decimal": ","}, "could not be separated"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load(tmp_path / "d.csv", "b", **options)
    np.savez(tmp_path / "d.npz", inputs=np.ones((2, 2)), targets=np.ones(2))
    with pytest.raises(ValueError, match="text files"):
        load(tmp_path / "d.npz", sep=";")
    with pytest.raises(ValueError, match="columns have no names"):
        load(tmp_path / "d.npz", drop="a")
    with pytest.raises(ValueError, match="is a data set already"):
        as_dataset(bf.datasets.xor(), target="y")
    with pytest.raises(ValueError, match="given as a pair"):
        as_dataset((np.ones((2, 2)), np.ones(2)), target="y")
    with pytest.raises(ValueError, match=r"array of shape \(samples, columns\)"):
        as_dataset(np.ones(3))


def test_a_packed_bomb_is_refused(tmp_path) -> None:
    with gzip.open(tmp_path / "d.csv.gz", "wb", compresslevel=1) as stream:
        stream.write(b"a,target\n")
        for _ in range(300):
            stream.write(b"0,0\n" * 250_000)
    with pytest.raises(ValueError, match="not taken for data"):
        load(tmp_path / "d.csv.gz")


def test_columns_by_number_dictionaries_and_words_beside_arrays() -> None:
    array = np.arange(12.0).reshape(4, 3)
    for target, column in ((-1, 2), (0, 0), ([1], 1)):
        np.testing.assert_array_equal(as_dataset(array, target).targets, array[:, column])
    assert as_dataset(array, -1, drop=[-3]).origin["columns"] == ("1",)
    np.testing.assert_array_equal(as_dataset(pd.DataFrame(array), 1).targets, array[:, 1])
    table = {"a": [1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0], "y": [1.0, 2.0, 4.0]}
    assert as_dataset(table, "y").origin["columns"] == ("a", "b")
    found = as_dataset((array, np.array(["no", "yes", "no", "yes"])))
    assert found.classes == ("no", "yes")
    # Several names in one string, as on the command line.
    assert as_dataset(table, ["a,y"]).outputs == 2
