"""Shared by all tests: a compilation cache kept between runs, and property tests without deadlines."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Compiling takes longer than most compiled functions run; also why a property test's first example is slow.
_ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # small ones too: two processes share them
# XLA compiles a function in 32 parts, side by side. Two test processes fill two cores: in one part it is quicker.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_parallel_codegen_split_count=1")
os.environ.setdefault("BIASFREE_QUIET", "1")  # compiling is not announced in the middle of what tests read
settings.register_profile("biasfree", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("biasfree")

# The files that take longest come first: begun last, one of them would keep one process busy while the other waits.
_LONGEST = (
    "test_wide_problems.py", "test_browser.py", "test_never_silently_wrong.py", "test_more_wide_problems.py",
    "test_exact.py", "test_exact_reference.py", "test_server.py", "test_colouring.py", "test_flow.py",
    "test_measures.py", "test_several_outputs.py", "test_diagnose.py", "test_exact_outputs.py",
    "test_inspect_linear.py", "test_plateau_studies.py", "test_departure.py", "test_broken_data.py",
    "test_answers_to_act_on.py", "test_sweep.py", "test_view.py", "test_deep.py", "test_equivalence.py",
    "test_cluster.py", "test_symmetric_dynamics.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
