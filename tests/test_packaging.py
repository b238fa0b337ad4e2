"""What is shipped: the same bytes from the same files, extras that are named when missing, bounds that are tested."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

import biasfree as bf
from biasfree import checks
from biasfree.native import _build

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILDERS = [name for name in ("build", "hatchling") if importlib.util.find_spec(name) is None]
needs_builders = pytest.mark.skipif(bool(BUILDERS), reason=f"not installed: {', '.join(BUILDERS)} (make sets them up)")


def _copy(target: Path, stamp: int) -> Path:
    """The files of the project, younger or older, as another person's checkout would have them."""
    left = {".git", ".venv", ".cache", "report", "dist", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
    for path in ROOT.iterdir():
        if path.is_dir() and path.name not in left:
            shutil.copytree(path, target / path.name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name not in left:
            shutil.copy(path, target)
    (target / "stray.txt").write_text("not a part of the package")
    for path in target.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (stamp, stamp))
    return target


def _built(source: Path, target: Path) -> dict[str, Path]:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return {path.suffix: path for path in target.iterdir()}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> list[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("dist")
    return [
        _built(_copy(folder / f"copy{k}", stamp), folder / f"out{k}") for k, stamp in enumerate((10**9, 1600000001))
    ]


@needs_builders
@pytest.mark.slow
def test_the_same_files_give_the_same_bytes(distributions) -> None:
    first, second = ({kind: hashlib.sha256(p.read_bytes()).hexdigest() for kind, p in d.items()} for d in distributions)
    assert set(first) == {".gz", ".whl"}
    assert first == second


@needs_builders
@pytest.mark.slow
def test_wheel_and_source_hold_what_they_should(distributions) -> None:
    names = set(zipfile.ZipFile(distributions[0][".whl"]).namelist())
    shipped = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "biasfree").rglob("*") if p.is_file()}
    shipped = {name for name in shipped if "__pycache__" not in name and "native/engine-" not in name}
    shipped.add(f"biasfree/native/{_build.name()}")  # compiled when the wheel is built
    assert {name for name in names if ".dist-info/" not in name} == shipped
    with tarfile.open(distributions[0][".gz"]) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "tests/smoke.py", "Makefile"} <= packed
    assert "stray.txt" not in packed
    assert distributions[0][".whl"].name.startswith(f"biasfree-{bf.__version__}-py3-none-")


def test_the_version_has_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert f"## {bf.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_oldest_versions_are_the_lower_bounds() -> None:
    """Each requirement that a user may install is a lower bound, and the constraints file repeats it."""
    text = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8")
    pinned = dict(line.split("==") for line in text.splitlines() if not line.startswith("#"))
    extras = PROJECT["optional-dependencies"]
    asked = PROJECT["dependencies"] + [r for extra in ("parquet", "onnx", "cluster", "explore") for r in extras[extra]]
    bounds = dict(requirement.split(">=") for requirement in asked)
    assert pinned == bounds | {"jaxlib": bounds["jax"]}


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("pyarrow", "parquet", lambda folder: bf.datasets.load(folder / "data.parquet", target="y")),
        ("onnx", "onnx", lambda folder: bf.inspect(folder / "model.onnx")),
        ("torch", "torch", lambda folder: bf.inspect(folder / "model.pt", slope=0.0)),
        ("distributed", "cluster", lambda folder: _swept(folder)),
        ("uvicorn", "explore", lambda folder: importlib.import_module("biasfree.explorer").serve(browser=False)),
    ],
)
def test_a_missing_extra_is_named(package, extra, use, tmp_path, monkeypatch) -> None:
    for name in ("data.parquet", "model.onnx", "model.pt"):
        (tmp_path / name).write_bytes(b"\x08\x07 anything")
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(ValueError, match=re.escape(f"Install: pip install 'biasfree[{extra}]'.")) as raised:
        use(tmp_path)
    assert f"needs {package}, which is not installed" in str(raised.value)
    assert extra in PROJECT["optional-dependencies"]
    assert any(r.startswith(package) for r in PROJECT["optional-dependencies"][extra])


def _swept(folder: Path) -> object:
    run = {"data": "six_points", "until": 1}
    return bf.sweep(run, {"width": [2, 3]}, keep=["final_loss"], folder=folder / "runs", workers=2)


def test_several_missing_packages_are_one_sentence(monkeypatch) -> None:
    for name in ("plotly", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match="the explorer needs plotly and uvicorn, which are not installed"):
        checks.installed("plotly", "numpy", "uvicorn", extra="explore", what="the explorer")
    checks.installed("numpy", extra="explore", what="the explorer")


@pytest.mark.slow
@needs_builders
def test_every_command_runs_with_the_oldest_versions(distributions, tmp_path) -> None:
    """A fresh environment with the lower bounds of pyproject.toml; needs a package index."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    wheel = f"{distributions[0]['.whl']}[cluster,explore,onnx,parquet]"
    oldest = ROOT / "constraints-oldest.txt"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-c", oldest, wheel], check=True)
    installed = subprocess.run([python, "-c", "import numpy; print(numpy.__version__)"], capture_output=True, text=True)
    assert np.lib.NumpyVersion(installed.stdout.strip()) < "2.1.0"
    ended = subprocess.run(
        [python, ROOT / "tests" / "smoke.py", ROOT / "README.md"],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
