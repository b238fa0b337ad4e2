"""``python -m biasfree`` is the command ``biasfree``."""

from biasfree.cli import main

if __name__ == "__main__":
    main()
