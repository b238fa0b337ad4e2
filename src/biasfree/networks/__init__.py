"""Bias-free networks of any depth, and the ways to start them."""

from biasfree.networks._forward import Architecture, forward, hidden_layers
from biasfree.networks._network import Network

__all__ = ["Architecture", "Network", "forward", "hidden_layers"]
