"""Bias-free networks of any depth, and the ways to start them."""

from biasfree.networks._network import Architecture, Network, forward, hidden_layers

__all__ = ["Architecture", "Network", "forward", "hidden_layers"]
