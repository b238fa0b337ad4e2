"""Jacobians by few products, against every product one by one, and against differences of values."""

import numpy as np
import pytest

from biasfree.inspection import _colouring, _convolving, _pushing
from biasfree.inspection._function import GraphFunction
from biasfree.inspection._points import given
from biasfree.models import Graph, Node, Port
from biasfree.models import _operations as ops


def conv(rng, into, out, kernel=3, groups=1, transposed=False, extra=0, rank=2, **options):
    shape = (into, out // groups) if transposed else (out, into // groups)
    plain = {"stride": 1, "padding": (1, 1), "dilation": 1} | options
    each = {key: (value,) * rank for key, value in plain.items()}
    weight = rng.normal(size=(*shape, *(kernel,) * rank))
    return ops.Conv(weight, None, groups=groups, transposed=transposed, extra=(extra,) * rank, **each)


def chain(*operations, channels=1, size=24):
    nodes = tuple(Node(operation, (k,)) for k, operation in enumerate(operations))
    return Graph((Port("x", (channels, size, size)),), nodes)


def graphs():
    rng, relu = np.random.default_rng(0), ops.Activation()
    small, wide = conv(rng, 1, 4), conv(rng, 4, 1)
    window = {"kernel": (3, 3), "stride": (2, 2), "padding": ((1, 0), (0, 1))}
    skip = (Node(small, (0,)), Node(relu, (1,)), Node(conv(rng, 4, 4, 5, padding=(2, 2)), (2,)), Node(relu, (3,)),
            Node(ops.Sum((1, -1)), (4, 2)), Node(ops.Concat(), (5, 0)), Node(conv(rng, 5, 2), (6,)))  # fmt: skip
    noise = (Node(conv(rng, 1, 3), (1,)), Node(conv(rng, 1, 3), (0,)), Node(relu, (3,)), Node(ops.Product(), (4, 2)),
             Node(conv(rng, 3, 1), (5,)))  # fmt: skip
    level = (Node(small, (0,)), Node(ops.Sum(), (2, 1)), Node(relu, (3,)), Node(wide, (4,)))
    square = Port("x", (1, 24, 24))
    apart = conv(rng, 4, 2, 2, groups=2, stride=3, transposed=True, padding=(0, 1), extra=1)
    return {
        "plain": chain(small, relu, conv(rng, 4, 4), relu, wide),
        "channels and groups": chain(conv(rng, 3, 6, groups=3), relu, conv(rng, 6, 2, groups=2), channels=3),
        "stride and dilation": chain(conv(rng, 1, 4, stride=2), relu, conv(rng, 4, 2, dilation=2, padding=(2, 1))),
        "cropped": chain(conv(rng, 1, 4, padding=(-1, 2)), relu, wide),
        "there and back": chain(conv(rng, 1, 4, stride=2), relu, conv(rng, 4, 1, 4, stride=2, transposed=True)),
        "transposed in groups": chain(small, relu, apart),
        "largest of windows": chain(small, ops.Pool(True, **window), wide),
        "mean of windows": chain(small, relu, ops.Pool(False, **window), relu, wide),
        "mean with padding": chain(small, relu, ops.Pool(False, count_padding=True, **window), relu, wide),
        "enlarged": chain(small, relu, ops.Pool(True, (2, 2), (2, 2), ((0, 0), (0, 0))), ops.Upsample((2, 2)), wide),
        "reflected": chain(ops.Pad(((2, 1), (1, 2)), "reflect"), small, relu, ops.Pad(((-1, 0), (0, -1))), wide),
        "repeated": chain(small, relu, ops.Pad(((1, 1), (1, 1)), "edge"), wide),
        "smooth": chain(small, ops.Elementwise("Tanh"), wide, ops.Scale(np.full((1, 1, 1), 3.0), np.ones(1))),
        "leaky": chain(small, ops.Activation(rng.uniform(size=(4, 1, 1))), wide),
        "skips": Graph((square,), skip),
        "times a noise map": Graph((square, Port("noise", (1, 24, 24))), noise),
        "plus a noise level": Graph((square, Port("noise", (1, 1, 1))), level),
        "one axis": Graph((Port("x", (2, 60)),), (Node(conv(rng, 2, 3, 5, rank=1), (0,)), Node(relu, (1,)))),
    }


GRAPHS = graphs()


def sample(graph):
    rng = np.random.default_rng(1)
    return given(tuple(rng.normal(size=(1, *port.shape)) for port in graph.ports), graph.ports)


@pytest.mark.parametrize("name", GRAPHS)
def test_few_products_give_the_whole_jacobian(name, monkeypatch) -> None:
    """Each value with its own colours; colour by colour, where these do not fit in memory; by differences of values."""
    graph = GRAPHS[name]
    one, function = sample(graph), GraphFunction(graph)
    plan = _colouring.plan(graph, graph.shapes(one.values))
    assert plan is not None
    dim = one.x.shape[1]
    assert plan.products < dim / 2
    # A misplaced entry shows in every random direction.
    directions = np.random.default_rng(2).normal(size=(6, dim))
    moved = function.from_one(one, directions)
    size = np.abs(moved).max()
    assert size > 0
    np.testing.assert_allclose(directions @ _pushing.jacobian(graph, plan, one.values).T, moved, atol=1e-13 * size)
    monkeypatch.setattr(_pushing, "_HELD", 1)
    monkeypatch.setattr(_convolving, "_BLOCK", 1000)
    np.testing.assert_allclose(directions @ _pushing.jacobian(graph, plan, one.values).T, moved, atol=1e-13 * size)
    step, ahead = 1e-7, directions[0].reshape(1, *one.shape)
    there, back = (graph(one.values[0] + s * ahead, *one.values[1:]) for s in (step, -step))
    np.testing.assert_allclose((there - back).ravel() / (2 * step), moved[0], atol=1e-5 * size)


def test_what_sees_everything_has_no_plan() -> None:
    rng, relu = np.random.default_rng(0), ops.Activation()
    dense = ops.Linear(rng.normal(size=(5, 4 * 144)))
    for graph in (
        chain(conv(rng, 1, 4), relu, ops.Reshape(), dense, size=12),
        chain(conv(rng, 1, 4), relu, ops.Reduce("mean", (1, 2)), conv(rng, 4, 1), size=12),
        chain(ops.Elementwise("Softmax"), size=12),
    ):
        one = sample(graph)
        assert _colouring.plan(graph, graph.shapes(one.values)) is None
        found = GraphFunction(graph).jacobian(one)
        np.testing.assert_allclose(found, GraphFunction(graph).from_one(one, np.eye(144)).T, atol=1e-12)
    # A mean over the image, added to every pixel of it: broadcast, so no pixel is far from any other.
    nodes = (Node(conv(rng, 1, 1), (0,)), Node(ops.Reduce("mean", (1, 2)), (1,)), Node(ops.Sum(), (1, 2)))
    graph = Graph((Port("x", (1, 12, 12)),), nodes)
    one = sample(graph)
    np.testing.assert_allclose(
        GraphFunction(graph).jacobian(one), GraphFunction(graph).from_one(one, np.eye(144)).T, atol=1e-12
    )
