"""The explorer in a real browser: from the move of a slider to the drawn frame, beside PyTorch on the same case.

Everything is compiled before: what is timed is a slider's ``input`` event, the request, the run in a worker, the
answer, and the next frame after the curve and the panels were drawn. The peer is timed in part and the whole follows in
proportion, at the papers' rates, between the moves of two cases.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

from tests.explorer.browsing import Watch, browser, why_not
from tests.explorer.serving import server

from bench._clock import say
from bench._paper import Descent, descents

MOVES, FEW_MOVES = 50, 15
# A move: set the slider, tell the page as a hand would, and wait for the frame after the answer is drawn.
_MOVE = """([id, position]) => new Promise((resolve, reject) => {
  const slider = document.getElementById(id);
  const began = performance.now();
  slider.value = position;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const look = () => {
    const { state } = document.body.dataset;
    if (state === "failed") reject(new Error(document.getElementById("banner").textContent));
    else if (state === "drawn") requestAnimationFrame(() => resolve(performance.now() - began));
    else setTimeout(look, 1);
  };
  look();
})"""
_SCRUB = """() => window.explorer.then((page) => new Promise((resolve) => {
  const began = performance.now(), drawing = [];
  let frame = 0;
  const step = () => {
    const now = performance.now();
    page.go(frame++ % page.run.arrays.frames.length);
    drawing.push(performance.now() - now);
    if (now - began < 2000) return requestAnimationFrame(step);
    drawing.sort((a, b) => a - b);
    const slowest = drawing.at(-1), middle = drawing[Math.floor(drawing.length / 2)];
    const frames_per_second = 1000 * drawing.length / (now - began);
    resolve({ frames_per_second, drawing_ms: middle, slowest_drawing_ms: slowest });
  };
  requestAnimationFrame(step);
}))"""


class Case(NamedTuple):
    """What the page opens with, the slider that is moved, the positions it is moved to, and the peer's run."""

    name: str
    address: str
    slider: str
    positions: tuple[int, ...]
    peer: Descent


def cases() -> Iterator[Case]:
    """Six points, XOR, orthogonal pair and Figure 3."""
    peers = {(run.figure, run.data.name, run.start.slope): run for run in descents()}
    scales = tuple(range(7, 17))  # 3e-5 to 1e-9
    yield Case(
        "six points to t = 1000", "data=six-points&width=100&until=1000", "c-offset", tuple(range(5, 31)),
        peers["tmlr-figure-6", "six points", 0.0],
    )  # fmt: skip
    for name, told, until in (("xor", "XOR", 80), ("orthogonal-pair", "orthogonal pair", 45)):
        address = f"data={name}&width=60&scale=1e-6&until={until}"
        yield Case(told, address, "c-scale", scales, peers["tmlr-figure-4", told, 0.0])
    # By its own variable, the slope, from 0 to 1.
    yield Case(
        "Figure 3, width 500", "data=linear-plus-sine&width=500&scale=1e-8&until=40", "c-slope", tuple(range(21)),
        peers["tmlr-figure-3", "symmetric Gaussian", 0.0],
    )  # fmt: skip


@contextmanager
def _page() -> Iterator[Watch]:
    with server(workers=2) as served, browser() as chromium:
        served.wait_until_ready()
        watch = Watch(chromium, served.address)
        yield watch
        watch.context.close()


def measure(quick: bool) -> dict[str, Any]:
    """Milliseconds of each case's moves, frames a second, bytes, and the ratio to the peer; None without a browser."""
    if why_not() is not None:
        say(f"explorer: not measured, {why_not()}")
        return {"skipped": why_not()}
    found: dict[str, Any] = {}
    with _page() as watch:
        for case in cases():
            moves = FEW_MOVES if quick else MOVES
            say(f"explorer: {case.name}, {moves} moves")
            told = _moved(watch, case, moves) | _beside(case.peer, quick)
            told["ratio"] = 1000 * told["descent_seconds"] / told["median_ms"]
            say(f"explorer: median {told['median_ms']:.0f} ms, {told['ratio']:.0f} times faster than descent")
            found[case.name] = told
    return {"settings": {"moves": moves}, "cases": found}


def _moved(watch: Watch, case: Case, moves: int) -> dict[str, Any]:
    watch.open(case.address)
    count = len(case.positions)
    for position in case.positions[:: max(1, count // 3)]:  # compiles what this case needs
        watch.page.evaluate(_MOVE, [case.slider, position])
    # Up and down the slider, never the same place twice in a row.
    way = [case.positions[k % count if (k // count) % 2 == 0 else count - 1 - k % count] for k in range(moves + 1)]
    places = [place for place, next_one in itertools.pairwise(way) if place != next_one]
    spent = [watch.page.evaluate(_MOVE, [case.slider, place]) for place in places]
    size = watch.page.evaluate("window.explorer.then((page) => page.run.head.bytes)")
    return {
        "moves": len(spent), "median_ms": median(spent), "worst_ms": max(spent), "bytes": size,
        **watch.page.evaluate(_SCRUB),
    }  # fmt: skip


def _beside(peer: Descent, quick: bool) -> dict[str, Any]:
    return {
        "descent_seconds": peer.seconds(quick),
        "descent_steps": peer.steps,
        "extrapolated": True,
    }
