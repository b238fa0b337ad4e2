"""Every method against every system with a known solution."""

import numpy as np
import pytest

import biasfree as bf
from biasfree.dynamics import METHODS
from biasfree.dynamics._one_step import RungeKutta
from tests.systems import SYSTEMS, System, riccati

# Between depths 2 and 5, which are run always: compiling each method for it takes longer than all else here.
BETWEEN = [system for system in SYSTEMS if system.name == "scalar linear, depth 3"]
ORDERS = {"bosh3": 3, "dopri5": 5, "tsit5": 5, "dopri8": 8}  # "rkc" changes its order: tests/test_one_step.py


def worst_error(system: System, method: str, rtol: float) -> tuple[float, int]:
    """Largest error over the run, relative to the observable's largest size, and the evaluations it took."""
    times = np.linspace(0, system.until, 6)
    run = bf.gradient_flow(
        system.network, system.dataset, until=system.until, method=method, rtol=rtol, save=times, **system.flow
    )
    assert run.status.name == "reached", run.status.message
    exact = np.array([system.exact(t) for t in times])
    seen = np.array([system.observe(network) for network in run.networks])
    return float(np.abs(seen - exact).max() / np.abs(exact).max()), run.counts.evaluations


@pytest.mark.parametrize(
    ("system", "method"),
    [
        pytest.param(system, method, id=f"{system.name}-{method}", marks=pytest.mark.slow if system in BETWEEN else ())
        for system in SYSTEMS
        for method in METHODS
        if method not in ("auto", "exact") or (method == "exact" and system.network.depth == 2)
    ],
)
def test_method_solves_system(system: System, method: str) -> None:
    for rtol in (1e-4, 1e-6, 1e-8):
        error, _ = worst_error(system, method, rtol)
        assert error <= 100 * rtol + system.floor, f"rtol {rtol:g}: {error:.2e}"


@pytest.mark.parametrize("method", list(ORDERS))
def test_order_of_convergence(method: str) -> None:
    """With steps of fixed size h the error falls like h^p: the smallest step is set above what rtol asks for."""
    system = next(s for s in SYSTEMS if s.name == "regression with decay")
    errors = []
    for step in (0.5, 0.25):
        run = bf.gradient_flow(
            system.network, system.dataset, until=3.0, method=method, rtol=1e-13, smallest_step=step, save=[3.0],
            **system.flow,
        )  # fmt: skip
        assert run.counts.accepted == 3.0 / step
        errors.append(np.abs(system.observe(run.final) - system.exact(3.0)).max())
    measured = np.log2(errors[0] / errors[1])
    assert measured > ORDERS[method] - 0.4  # a linear problem may be solved better than that
    assert RungeKutta(method).order == ORDERS[method]


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_descent_converges_to_the_exact_flow_at_first_order(slope: float) -> None:
    system = next(s for s in SYSTEMS if s.name == f"Assumption 4, slope {slope:g}")
    errors = []
    for rate in (0.02, 0.01):
        steps = round(system.until / rate)
        run = bf.gradient_descent(system.network, system.dataset, learning_rate=rate, steps=steps, save=[steps // 2])
        errors.append(np.abs(system.observe(run.final) - system.exact(system.until / 2)).max())
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.2)


def test_the_exact_solutions_solve_their_equations() -> None:
    """The references are checked too: finite differences of the Riccati solution against the linear flow, Eq. 8."""
    system = next(s for s in SYSTEMS if s.name == "Assumption 4, slope 1")
    first, second = (np.asarray(w) for w in system.network.weights)
    beta = np.asarray(system.dataset.correlation)
    start = np.concatenate([first.T, second])
    step = 1e-5
    slope = (riccati(beta, start, step)[:-1, -1] - riccati(beta, start, 0.0)[:-1, -1]) / step
    error = beta - (second @ first)[0]
    velocity = (second @ second.T) * error + first.T @ first @ error
    assert slope == pytest.approx(velocity[0] if velocity.ndim > 1 else velocity, rel=1e-3)
