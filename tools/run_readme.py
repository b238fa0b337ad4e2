"""Run the README's first Python example in a folder: ``python tools/run_readme.py report``."""

import contextlib
import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def first_example() -> str:
    """The text of the README's first Python block."""
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise ValueError("README.md has no Python example.")
    return found[1]


def run(folder: Path) -> None:
    """Execute the example with ``folder`` as the working directory."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(folder):
        exec(compile(first_example(), "README.md", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "report")
    run(folder)
    print(f"\nwrote {folder / 'loss.png'}")
