"""The methods of ``gradient_flow``: each file here has one or more in its ``METHODS``, and a new one is a new file."""

import importlib
import pkgutil

from biasfree.dynamics.methods._method import Begun, Method

__all__ = ["BY_NAME", "METHODS", "Begun", "Method", "found"]


def found() -> dict[str, Method]:
    """The methods of all files here, by name."""
    files = [file.name for file in pkgutil.iter_modules(__path__) if not file.name.startswith("_")]
    return {each.name: each for file in files for each in importlib.import_module(f"{__name__}.{file}").METHODS}


BY_NAME = found()
METHODS = ("auto", *BY_NAME)
