"""Eight prepared views, in the order of a lecture."""

from typing import Any, NamedTuple

SLOPES = (0.0, 0.2, 0.4, 0.6, 0.8)


class Prepared(NamedTuple):
    """A view with a title, what to look at, and how the page shows it at first.

    Attributes:
        id: its name in an address.
        title, description: what the strip and the page say of it.
        view: fields of a ``View`` that differ from the defaults.
        shown: of the page: ``axis`` ("linear", "log", "ratio" or "rescaled"), ``share`` of the way where the time
            cursor stands, and ``focus``, a control to point at.
    """

    id: str
    title: str
    description: str
    view: dict[str, Any]
    shown: dict[str, Any]


GALLERY = (
    Prepared(
        "slopes",
        "One curve, six slopes",
        "Theorem 5: on symmetric data a bias-free ReLU network learns like a linear one. In rescaled time (α+1)t/2 six "
        "slopes share one loss curve.",
        {
            "data": "linear-plus-sine", "dim": 20, "pairs": 100, "width": 100, "scale": 1e-8, "until": 50.0,
            "slopes": list(SLOPES),
        },
        {"axis": "rescaled", "share": 0.45, "focus": "slope"},
    ),
    Prepared(
        "six-points",
        "Six points: plateau and after",
        "One of six symmetric points is moved up by 0.15. The network rests at the linear solution, and leaves it at "
        "last. Scrub past t ≈ 560.",
        {"data": "six-points", "offset": 0.15, "until": 1000.0},
        {"axis": "linear", "share": 0.4},
    ),
    Prepared(
        "xor",
        "XOR, one point at a time",
        "Without symmetry neurons gather in several directions, and each group is a linear network of its own: the "
        "loss falls in steps that theory predicts.",
        {"data": "xor", "width": 60, "scale": 1e-6, "until": 80.0},
        {"axis": "linear", "share": 0.3},
    ),
    Prepared(
        "orthogonal-pair",
        "An orthogonal pair",
        "Two orthogonal samples are learned one after the other, as by two linear networks.",
        {"data": "orthogonal-pair", "width": 60, "scale": 1e-6, "until": 45.0},
        {"axis": "linear", "share": 0.45},
    ),
    Prepared(
        "augmented-xor",
        "Augmentation that spoils XOR",
        "Add (−x, −y) for every sample and Condition 3 holds: now nothing beyond a linear map can be learned. Untick "
        "“mirror” to see XOR learned again.",
        {"data": "xor", "mirrored": True, "width": 60, "scale": 1e-6, "until": 80.0},
        {"axis": "linear", "share": 1.0, "focus": "mirrored"},
    ),
    Prepared(
        "stacked-ones",
        "Stacking a one is no bias",
        "Appendix B: with a one stacked on the input the boundary need not pass the origin, but its margin is not that "
        "of a network with a bias.",
        {
            "data": "points", "inputs": [[3.0, 2.0], [3.0, 3.0], [4.0, 0.0], [4.0, 2.0]],
            "targets": [1.0, 1.0, -1.0, -1.0], "name": "four points", "ones": True, "loss": "logistic",
            "width": 60, "scale": 1e-3, "until": 3000.0,
        },
        {"axis": "log", "share": 1.0, "focus": "ones"},
    ),
    Prepared(
        "depth-separation",
        "Three layers learn more",
        "An odd, nonlinear target. Three layers rest at the linear solution and leave it; two layers stay there for "
        "ever. Set depth to 2 to see.",
        {
            "data": "depth-separation", "pairs": 20, "depth": 3, "width": 40, "scale": 0.1, "seed": 2, "until": 300.0,
            "rtol": 1e-4,
        },
        {"axis": "linear", "share": 1.0, "focus": "depth"},
    ),
    Prepared(
        "departure",
        "The law of departure",
        "How long the plateau lasts is inverse to how far the sixth point is moved, and a law predicts it. Move the "
        "offset, and watch the end of the plateau move.",
        {"data": "six-points", "offset": 0.08, "until": 2500.0},
        {"axis": "linear", "share": 0.6, "focus": "offset"},
    ),
)  # fmt: skip
