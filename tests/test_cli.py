"""The command line: results, sentences, exit codes, nothing left behind."""

import json
import subprocess
import sys

import numpy as np
import pytest

import biasfree as bf
from biasfree import cli

QUICK = ["simulate", "--data", "xor", "--width", "8", "--until", "2"]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call the program with arguments, in an empty folder; gives exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["biasfree", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


@pytest.mark.parametrize("code", ["import biasfree", "from biasfree.cli import main; main()"])
def test_heavy_imports_wait(code) -> None:
    """What makes the import and --help fast: of all packages installed, only the command line's own are imported."""
    listing = f"""
import sys, sysconfig
sys.argv, before = ["biasfree", "--help"], set(sys.modules)
try:
    {code}
except SystemExit:
    pass
installed = sysconfig.get_path("purelib"), sysconfig.get_path("platlib")
places = {{name: getattr(sys.modules[name], "__file__", None) or "" for name in set(sys.modules) - before}}
print(*sorted({{name.partition(".")[0] for name in places if places[name].startswith(installed)}}), file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    imported = set(ended.stderr.split())
    if "cli" in code:
        assert "simulate" in ended.stdout
        assert "typer" in imported  # so that an empty list would not do
    assert imported <= {"annotated_doc", "biasfree", "click", "colorama", "shellingham", "typer", "typing_extensions"}


def test_only_public_names_are_listed() -> None:
    assert sorted(bf.__all__) == bf.__all__
    assert set(dir(bf)) == {*bf.__all__, "__version__"}
    assert all(getattr(bf, name) is not None for name in bf.__all__)


def test_help_and_version(run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "simulate" in out
    assert run("--version")[1] == f"biasfree {bf.__version__}\n"
    assert "--init-scale" in run("simulate", "--help")[1]


def test_simulate_writes_what_it_is_asked_for(run, tmp_path) -> None:
    code, out, err = run(*QUICK, "--init-scale", "1e-2", "--seed", "3", "--out", "run.nc", "--plot", "loss.png")
    assert (code, err) == (0, "")
    assert "reached t = 2" in out
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    stored = bf.Trajectory.load(tmp_path / "run.nc")
    direct = bf.gradient_flow(bf.Network.init([2, 8, 1], 0.0, 1e-2, 3), bf.datasets.xor(), until=2.0)
    np.testing.assert_array_equal(stored.losses, direct.losses)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["loss.png", "run.nc"]


def test_json_is_json(run) -> None:
    code, out, _ = run(
        *QUICK, "--json", "--depth", "3", "--slope", "0.5", "--method", "dopri5", "--weight-decay", "0.1"
    )
    summary = json.loads(out)
    assert code == 0
    assert summary["network"] == "2-8-8-1 leaky ReLU (slope 0.5) network"
    assert (summary["settings"]["method"], summary["settings"]["weight_decay"]) == ("dopri5", 0.1)


def test_plateaus_are_told_drawn_and_part_of_the_json(run, tmp_path) -> None:
    arguments = ["simulate", "--data", "orthogonal-pair", "--width", "12", "--init-scale", "1e-6", "--until", "50"]
    code, out, _ = run(*arguments, "--plateaus", "--plot", "steps.png", "--quiet")
    assert code == 0
    assert "3 plateaus" in out
    assert "by prediction" in out
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run(*arguments, "--plateaus", "--json", "--quiet")
    told = json.loads(out)["plateaus"]["plateaus"]
    assert [round(each["level"], 2) for each in told] == [0.5, 0.25, 0.0]


def test_descent_and_files_and_clocks(run, tmp_path) -> None:
    (tmp_path / "d.csv").write_text("a,b,label\n1,2,1\n3,1,1\n-1,-2,-1\n")
    code, out, _ = run("simulate", "--data", "d.csv", "--target", "label", "--until", "1", "--learning-rate", "0.1")
    assert code == 0
    assert "gradient descent at rate 0.1, 10 steps" in out
    code, out, _ = run(
        "simulate", "--data", "d.csv", "--target", "label", "--until", "6", "--loss", "logistic", "--clock", "loss",
        "--init-scale", "1", "--width", "4", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["settings"]["clock"] == "loss"


def test_classes_and_several_columns(run, tmp_path) -> None:
    (tmp_path / "d.csv").write_text("a,b,kind\n1,2,red\n3,1,red\n-1,-2,blue\n0,1,green\n")
    arguments = ("simulate", "--data", "d.csv", "--until", "2", "--width", "4")
    code, out, _ = run(*arguments, "--target", "kind", "--loss", "cross-entropy")
    assert code == 0
    assert "3 classes" in out
    assert "cross-entropy" in out
    (tmp_path / "n.csv").write_text("a,b,c\n1,2,1\n3,1,4\n-1,-2,2\n")
    code, out, _ = run("simulate", "--data", "n.csv", "--until", "2", "--width", "4", "--target", "b,c")
    assert code == 0
    assert "2 outputs" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "six-pionts"], "Did you mean 'six-points'"),
        (["--data", "none.csv"], "no file at none.csv"),
        (["--data", "bad.csv"], "Name the column to predict"),
        (["--data", "bad.csv", "--target", "c"], "no column 'c'"),
        (["--data", "xor", "--target", "c"], "built-in data set"),
        (["--slope", "2"], "slope must lie in"),
        (["--width", "0"], "width must be a whole number"),
        (["--depth", "0"], "depth must be a whole number"),
        (["--init-scale", "0"], "scale must be"),
        (["--init-scale", "nan"], "scale must be"),
        (["--until", "-1"], "until must be"),
        (["--learning-rate", "0"], "learning-rate must be"),
        (["--learning-rate", "0.1", "--clock", "loss"], "belong to the flow"),
        (["--learning-rate", "0.1", "--max-steps", "10"], "--max-steps belongs to the flow"),
        (["--max-steps", "0"], "max_steps must be"),
        (["--learning-rate", "5"], "steps must be"),
        (["--seed", "-1"], "seed must be"),
        (["--method", "euler"], "unknown method 'euler'"),
        (["--method", "exact", "--depth", "3"], "two-layer networks"),
        (["--loss", "logistic", "--data", "bad.csv", "--target", "b"], "needs labels"),
        (["--rtol", "1"], "rtol must lie"),
        (["--out", "no/run.nc"], "does not exist"),
        (["--out", "run.pkl"], "must end in .nc"),
        (["--plot", "loss.bmp"], "must end in .png"),
        (["--out", "."], "must end in .nc"),
        (["--save", "0"], "save must be"),
        (["--stop-loss", "-1"], "loss level"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, tmp_path, arguments, sentence) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3,4\n")
    code, out, err = run(*QUICK, *arguments)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize(
    "arguments", [["simulate"], ["simulat"], [*QUICK, "--loss", "hinge"], [*QUICK, "--width", "x"]]
)
def test_bad_usage(run, arguments) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "Traceback" not in err


def test_a_limit_on_steps_ends_a_run_and_a_higher_one_takes_it_on(run, tmp_path) -> None:
    arguments = (*QUICK, "--method", "dopri5", "--slope", "1", "--json")
    code, out, _ = run(*arguments, "--max-steps", "5", "--out", "run.nc")
    cut = json.loads(out)
    assert code == 1
    assert cut["status"] == "step limit"
    assert "after 5 steps" in cut["message"]
    assert 0 < bf.Trajectory.load(tmp_path / "run.nc").times[-1] < 2
    code, out, _ = run(*arguments, "--max-steps", "100000")
    assert code == 0
    assert json.loads(out)["settings"]["max_steps"] == 100000
    assert "--max-steps" in run("simulate", "--help")[1]


def test_a_run_cut_short_still_writes_and_exits_1(run, tmp_path) -> None:
    code, out, _ = run(*QUICK, "--learning-rate", "1", "--init-scale", "100", "--until", "100", "--out", "run.nc")
    assert code == 1
    assert "diverged" in out
    assert (tmp_path / "run.nc").exists()
