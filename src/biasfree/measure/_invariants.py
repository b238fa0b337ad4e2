"""Quantities that gradient flow conserves (Le & Jegelka), and how far a trajectory drifts from them.

Let z_l leave layer l, h_l enter its neurons, D_l(x) hold the slopes of σ there and e_l = −∂ℓ/∂z_l: the flow is
Ẇ_l = ⟨D_l e_l z_{l−1}ᵀ⟩. Write A_l for W_l, or for M_l = I + W_l where an identity skip spans layer l alone. If A_k is
all that feeds the neurons of layer k and A_{k+1} all that reads them, then h_k = A_k z_{k−1},
e_k = A_{k+1}ᵀD_{k+1}e_{k+1} and

    d/dt [A_k A_kᵀ − A_{k+1}ᵀA_{k+1}]_ij = ⟨(D_i − D_j)(e_i h_j − h_i e_j)⟩,  i and j neurons of layer k.

So the flow conserves all of it where layer k is linear; its diagonal, ‖incoming‖² − ‖outgoing‖² of each neuron, for any
σ; the entries of neurons that are active on the same samples, always active ones among them; not the full matrix of a
ReLU layer. A skip over two or more layers that starts or ends at layer k feeds or reads its neurons too: inside the
branch x + CBx, BBᵀ − CᵀC is conserved, but nothing between the branch and its neighbours alone. Neurons joined by skips
obey one law together, see ``stream_balance``.

Weight decay λ multiplies what is conserved by e^{−2λt}, and drifts are measured from that. It pulls W to 0, not M, so
laws about M end with it. Gradient descent conserves all this to the order of its rate only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from biasfree.measure._neurons import LayerNeurons, neurons
from biasfree.measure._saved import Run, Saved, hidden, saved
from biasfree.networks import Network


@dataclass(frozen=True, eq=False)
class Invariant:
    """A quantity of the weights, whether the flow conserves it, and how far it drifted.

    Attributes:
        formula: the quantity, W1 W1ᵀ − W2ᵀ W2 say.
        conserved: whether gradient flow conserves it.
        reason: why, or why not.
        value: shape (*saved, neurons) for a law per neuron, (*saved, pairs) per pair, (*saved, neurons, neurons) else.
        neurons: the neurons it is about, shape (neurons,), or (pairs, 2).
        scale: the largest ‖incoming‖² + ‖outgoing‖² of a neuron at any saved time; no entry can be larger.
        fade: e^{−2λt}, by which weight decay shrinks what is conserved, t from the first saved time; shape (*saved,).
        times: saved times, or None for a single network.
    """

    formula: str
    conserved: bool
    reason: str
    value: Float[np.ndarray, "..."]
    neurons: Int[np.ndarray, "..."]
    scale: float
    fade: Float[np.ndarray, "*saved"]
    times: Float[np.ndarray, "saved"] | None

    @property
    def drift(self) -> Float[np.ndarray, "saved"]:
        """The largest change of an entry since the first saved time, decay taken out; NaN if there is no entry.

        Raises:
            ValueError: for a single network.
        """
        if self.times is None:
            raise ValueError("a single network does not drift: pass a trajectory.")
        expected = self.fade.reshape(-1, *(1,) * (self.value.ndim - 1)) * self.value[:1]
        changes = np.abs(self.value - expected).reshape(len(self.times), -1)
        return changes.max(axis=1) if changes.size else np.full(len(self.times), np.nan)

    @property
    def relative_drift(self) -> float:
        """The largest drift at a saved time, relative to ``scale``."""
        return float(self.drift.max() / self.scale) if self.scale > 0 else float("nan")

    def __str__(self) -> str:
        """One line: formula, law and drift."""
        text = f"{self.formula}: {'' if self.conserved else 'not '}conserved, as {self.reason}"
        if self.times is None:
            return text
        if not self.value.size:
            return f"{text}; there are none"
        return f"{text}; drifts by {self.drift.max():.2g}, {self.relative_drift:.2g} of its scale"

    __repr__ = __str__


def neuron_balance(subject: Network | Run, layer: int, *, identity: bool = True) -> Invariant:
    """‖incoming‖² − ‖outgoing‖² of each neuron of a hidden layer; conserved for any σ unless long skips meet there.

    Args:
        subject: a network, or a trajectory.
        layer: hidden layer, 1 is the first.
        identity: take M = I + W for a layer with an identity skip around it alone; False takes W, to no law.

    Raises:
        ValueError: no such hidden layer; weight decay together with M, or on the loss clock.

    >>> network = Network([[[3.0, 4.0], [0.0, 1.0]], [[5.0, 2.0]]], slope=0.0)
    >>> neuron_balance(network, 1).value
    array([ 0., -3.])
    """
    stack = saved(subject)
    before, after, name = _around(stack, layer, identity)
    value = (before**2).sum(axis=-1) - (after**2).sum(axis=-2)
    obstacle = _obstacle(stack.template, layer, identity)
    return Invariant(
        f"diag({name})", obstacle is None, obstacle or "σ is positively homogeneous", value,
        np.arange(value.shape[-1]), _scale([before], [after]),
        _fade(subject, stack, uses_identity="M" in name), stack.times,
    )  # fmt: skip


def matrix_balance(subject: Network | Run, layer: int, *, identity: bool = True) -> Invariant:
    """A_k A_kᵀ − A_{k+1}ᵀA_{k+1} around hidden layer k; conserved where that layer is linear.

    On a ReLU layer, and where a skip over several layers starts or ends, it is the counter-example.

    Args:
        subject: a network, or a trajectory.
        layer: hidden layer k, 1 is the first.
        identity: A = M = I + W for a layer with an identity skip around it alone; False takes W, to no law.

    Raises:
        ValueError: no such hidden layer; weight decay together with M, or on the loss clock.

    >>> network = Network([[[1.0, 2.0], [0.0, 1.0]], [[1.0, 1.0]]], slope=1.0)
    >>> matrix_balance(network, 1).value
    array([[4., 1.],
           [1., 0.]])
    """
    stack = saved(subject)
    before, after, name = _around(stack, layer, identity)
    obstacle = _obstacle(stack.template, layer, identity)
    if obstacle is None and _is_rectified(stack.template, layer):
        obstacle = f"layer {layer} has an activation, which only neurons active on the same samples share"
    return Invariant(
        name, obstacle is None, obstacle or f"layer {layer} is linear", _gram(before, after),
        np.arange(before.shape[-2]), _scale([before], [after]),
        _fade(subject, stack, uses_identity="M" in name), stack.times,
    )  # fmt: skip


def active_block_balance(
    subject: Network | Run,
    layer: int,
    inputs: Float[Any, "samples dim"] | None = None,
    *,
    since: float | None = None,
) -> Invariant:
    """The block of ``matrix_balance`` on the neurons active on every sample at every saved time; conserved.

    Symmetric data leave no such neuron in a first layer, where x or −x is on the inactive side; see
    ``same_pattern_balance``.

    Args:
        subject: a network, or a trajectory.
        layer: hidden layer, 1 is the first.
        inputs: training samples, shape (samples, dim); a trajectory knows its own.
        since: start at this saved time of a trajectory, from which on neurons are stably active.

    Raises:
        ValueError: no such hidden layer; inputs missing or of another dimension; a ``since`` after the end; weight
            decay together with M = I + W, or on the loss clock.

    >>> network = Network([[[1.0, 2.0], [0.0, 1.0], [-1.0, 0.0]], [[1.0, 1.0, 1.0]]], slope=0.0)
    >>> active_block_balance(network, 1, inputs=[[1.0, 1.0], [2.0, 1.0]]).value
    array([[4., 1.],
           [1., 0.]])
    """
    stack, activity = _activity(subject, layer, inputs, since)
    before, after, name = _around(stack, layer, identity=True)
    chosen = np.flatnonzero(activity.stably_active)
    obstacle = _obstacle(stack.template, layer, identity=True)
    return Invariant(
        f"{name} on always active neurons", obstacle is None,
        obstacle or "these neurons act linearly on every sample", _gram(before[..., chosen, :], after[..., chosen]),
        chosen, _scale([before], [after]), _fade(subject, stack, uses_identity="M" in name), stack.times,
    )  # fmt: skip


def same_pattern_balance(
    subject: Network | Run,
    layer: int,
    inputs: Float[Any, "samples dim"] | None = None,
    *,
    since: float | None = None,
) -> Invariant:
    """Entries i < j of ``matrix_balance`` whose neurons are active on the same samples at every saved time; conserved.

    Wider than Le & Jegelka's block: neurons that point the same way form such pairs on any data.

    Args:
        subject: a network, or a trajectory.
        layer: hidden layer, 1 is the first.
        inputs: training samples, shape (samples, dim); a trajectory knows its own.
        since: start at this saved time of a trajectory.

    Raises:
        ValueError: as ``active_block_balance``.

    >>> network = Network([[[1.0, 2.0], [1.0, 1.0], [-1.0, 0.0]], [[1.0, 1.0, 1.0]]], slope=0.0)
    >>> balance = same_pattern_balance(network, 1, inputs=[[1.0, 1.0], [-1.0, -1.0]])
    >>> balance.neurons, balance.value
    (array([[0, 1]]), array([2.]))
    """
    stack, activity = _activity(subject, layer, inputs, since)
    before, after, name = _around(stack, layer, identity=True)
    first, second = np.nonzero(np.triu(activity.groups[:, None] == activity.groups, k=1))
    obstacle = _obstacle(stack.template, layer, identity=True)
    return Invariant(
        f"{name} on pairs with the same activations", obstacle is None,
        obstacle or "the neurons of a pair share their slope on every sample", _gram(before, after)[..., first, second],
        np.stack([first, second], axis=-1), _scale([before], [after]),
        _fade(subject, stack, uses_identity="M" in name), stack.times,
    )  # fmt: skip


def branch_balance(subject: Network | Run, layer: int) -> Invariant:
    """BBᵀ − CᵀC inside a residual branch x + CBx; conserved where the branch is linear.

    Args:
        subject: a network, or a trajectory.
        layer: where the skip over two layers ends: the layer of C.

    Raises:
        ValueError: no skip over two layers ends there; weight decay on the loss clock.

    >>> network = Network([[[1.0]], [[2.0]], [[3.0]], [[1.0]]], slope=1.0, skips=[0, 0, 2, 0])
    >>> branch_balance(network, 3).value
    array([[-5.]])
    """
    skips = saved(subject).template.skips
    if not (1 <= layer <= len(skips) and skips[layer - 1] == 2):
        raise ValueError(f"no identity skip over two layers ends at layer {layer!r}; the spans are {skips}.")
    return matrix_balance(subject, layer - 1)


def stream_balance(subject: Network | Run, layer: int) -> Invariant:
    """Σ_l (W_l W_lᵀ − W_{l+1}ᵀW_{l+1}) over the hidden layers that identity skips join to this one; conserved.

    What one skip carries past a branch cancels in the sum, so this is the law that ties a branch to its neighbours. It
    holds for the matrix where all those layers are linear, otherwise for its diagonal, which is then the value: neuron
    i of all of them can be rescaled together. A layer without skips is its own stream.

    Args:
        subject: a network, or a trajectory.
        layer: any hidden layer of the stream, 1 is the first.

    Raises:
        ValueError: no such hidden layer; a stream that begins at the input or ends at the output, whose scale is
            fixed; weight decay on the loss clock.

    >>> network = Network([[[1.0]], [[2.0]], [[3.0]], [[1.0]]], slope=1.0, skips=[0, 0, 2, 0])
    >>> print(stream_balance(network, 1))
    W1 W1ᵀ − W2ᵀ W2 + W3 W3ᵀ − W4ᵀ W4: conserved, as all layers joined by skips are linear
    """
    stack = saved(subject)
    joined = _stream(stack.template, hidden(stack.template, layer))
    before, after = ([stack.weights[k - 1 + shift] for k in joined] for shift in (0, 1))
    value = np.sum([_gram(w, v) for w, v in zip(before, after, strict=True)], axis=0)
    name = " + ".join(f"W{k} W{k}ᵀ − W{k + 1}ᵀ W{k + 1}" for k in joined)
    reason = "all layers joined by skips are linear"
    if any(_is_rectified(stack.template, k) for k in joined):
        value, name = np.diagonal(value, axis1=-2, axis2=-1), f"diag({name})"
        reason = "neurons joined by skips can be rescaled together"
    width = stack.template.widths[layer]
    fade = _fade(subject, stack, uses_identity=False)
    return Invariant(name, True, reason, value, np.arange(width), _scale(before, after), fade, stack.times)


def _around(stack: Saved, layer: int, identity: bool) -> tuple[np.ndarray, np.ndarray, str]:
    """The matrices before and after a hidden layer, and the formula of their balance."""
    layer = hidden(stack.template, layer)
    pair = (layer, layer + 1)
    before, after = (stack.acting(k) if identity else stack.weights[k - 1] for k in pair)
    a, b = (stack.acting_name(k) if identity else f"W{k}" for k in pair)
    return before, after, f"{a} {a}ᵀ − {b}ᵀ {b}"


def _obstacle(network: Network, layer: int, identity: bool) -> str | None:
    """Why the matrices around a layer are not all that its neurons see; None if they are."""
    for end, span in enumerate(network.skips, 1):
        if span >= 2 and layer in (end - span, end):
            return f"a skip over {span} layers {'ends' if layer == end else 'starts'} at layer {layer}"
        if span == 1 and layer in (end - 1, end) and not identity:
            return f"the identity skip around layer {end} is left out"
    return None


def _stream(network: Network, layer: int) -> list[int]:
    """Layers whose outputs are joined to this one's by skips; 0 stands for the input."""
    joined, grown = {layer}, True
    links = [(end - span, end) for end, span in enumerate(network.skips, 1) if span]
    while grown:
        more = {k for link in links if joined & set(link) for k in link}
        grown, joined = not more <= joined, joined | more
    if 0 in joined or network.depth in joined:
        which = "input, which is given" if 0 in joined else "output, which the targets fix"
        raise ValueError(f"layer {layer} is joined by identity skips to the {which}; no law holds there.")
    return sorted(joined)


def _is_rectified(network: Network, layer: int) -> bool:
    return network.slope < 1 and network.rectified[layer - 1]


def _activity(subject: Network | Run, layer: int, inputs: Any, since: float | None) -> tuple[Saved, LayerNeurons]:
    stack = saved(subject).since(since)
    number = hidden(stack.template, layer)
    return stack, neurons(subject, inputs, since=since).layers[number - 1]


def _gram(before: np.ndarray, after: np.ndarray) -> Float[np.ndarray, "*saved neurons neurons"]:
    return before @ before.mT - after.mT @ after


def _scale(before: list[np.ndarray], after: list[np.ndarray]) -> float:
    """The largest ‖incoming‖² + ‖outgoing‖² of a neuron at any time."""
    incoming = sum((w**2).sum(axis=-1) for w in before)
    outgoing = sum((w**2).sum(axis=-2) for w in after)
    return float(np.max(incoming + outgoing))


def _fade(subject: Network | Run, stack: Saved, *, uses_identity: bool) -> Float[np.ndarray, "*saved"]:
    """How weight decay shrinks what is conserved, or a sentence on why that is not known."""
    if isinstance(subject, Network) or stack.times is None:
        return np.ones(())
    decay = subject.settings["weight_decay"]
    if decay and subject.settings["clock"] == "loss":
        raise ValueError(
            "with weight decay on the loss clock the balance shrinks by an unknown factor. Use clock='time'."
        )
    if decay and uses_identity:
        raise ValueError(
            f"weight decay ({decay:g}) pulls W to 0 and not M = I + W, so M has no conserved balance. "
            "Use stream_balance, or weight_decay=0."
        )
    return np.exp(-2 * decay * (stack.times - stack.times[0]))
