"""Shared by all tests: a compilation cache kept between runs, and property tests without deadlines."""

import os
from pathlib import Path

from hypothesis import settings

# Compiling takes longer than most compiled functions run; also why a property test's first example is slow.
_ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("BIASFREE_QUIET", "1")  # compiling is not announced in the middle of what tests read
settings.register_profile("biasfree", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("biasfree")
