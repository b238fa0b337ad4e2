"""Trained networks from elsewhere: how they are held, and how files and modules are read."""

from biasfree.models._model import Model
from biasfree.models._reading import read

__all__ = ["Model", "read"]
