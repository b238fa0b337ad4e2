"""Trained networks from elsewhere: one graph of operations for all, and how files and modules are read."""

from biasfree.models._graph import Graph, Node, Port
from biasfree.models._layers import Layers
from biasfree.models._reading import read
from biasfree.models._torch_module import is_module

__all__ = ["Graph", "Layers", "Node", "Port", "is_module", "read"]
