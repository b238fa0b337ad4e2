"""The exact gradient flow of a two-layer network with several outputs, slowly and simply, for tests to compare with.

Nothing of the package is used. With residuals e = −∂ℓ/∂f/P and the derivative s_hi = σ'(w_hᵀx_i) held between events,
ẇ_h = Σ_i s_hi (v_hᵀe_i) x_i − λw_h, v̇_h = Σ_i s_hi (w_hᵀx_i) e_i − λv_h. A neuron that slides on samples' lines moves
across them: its ẇ is projected. Every sample is a line of its own, so that inputs may not be parallel. SciPy's DOP853
goes from event to event: w_hᵀx_i = 0, or the derivative that holds a neuron on a line leaves [α, 1].
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import log_softmax, logsumexp

_ENDED = 1e-9  # of a derivative, by which it is taken to have reached the end of its interval
_ROUNDING = 1e-13  # of ‖w‖‖x‖, by which a line must be passed
_MOST = 300  # steps that the whole way is cut into at least, so that no event is stepped over


class Run(NamedTuple):
    times: np.ndarray
    losses: np.ndarray
    first: np.ndarray
    second: np.ndarray
    events: int
    slides: int


class Flow:
    """Weights, and for each neuron and sample the derivative; NaN where it slides."""

    def __init__(
        self, inputs: Any, targets: Any, first: Any, second: Any, slope: float, loss: str, decay: float
    ) -> None:
        self.x, self.y = np.asarray(inputs, float), np.asarray(targets, float)
        self.slope, self.loss, self.decay = slope, loss, decay
        self.shape = np.shape(first), np.shape(np.asarray(second).T)
        self.state = np.concatenate([np.ravel(first), np.ravel(np.asarray(second).T)])
        self.gate = np.where(self.weights(self.state)[0] @ self.x.T > 0, 1.0, slope)
        self.by_loss = False

    def weights(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cut = int(np.prod(self.shape[0]))
        return state[:cut].reshape(self.shape[0]), state[cut:].reshape(self.shape[1])

    def log_loss(self, outputs: np.ndarray) -> float:
        if self.loss == "square":
            return float(np.log(0.5 * np.sum((outputs - self.y) ** 2) / len(self.y)))
        if self.loss == "cross-entropy":
            one_hot = self.y.argmax(axis=1)
            away = outputs - np.take_along_axis(outputs, one_hot[:, None], 1)
            away[np.arange(len(away)), one_hot] = -np.inf
            z = logsumexp(away, axis=1)
            logs = np.where(z < -30, z, np.log(np.logaddexp(0, np.maximum(z, -30))))
            return float(logsumexp(logs) - np.log(len(z)))
        raise ValueError(self.loss)

    def errors(self, first: np.ndarray, second: np.ndarray, gate: np.ndarray) -> tuple[np.ndarray, float]:
        """e, and λ; both over L on the loss clock."""
        outputs = (np.nan_to_num(gate) * (first @ self.x.T)).T @ second
        scale = np.exp(-self.log_loss(outputs)) if self.by_loss else 1.0
        wrong = self.y - (outputs if self.loss == "square" else np.exp(log_softmax(outputs, axis=1)))
        return scale * wrong / len(self.y), scale * self.decay

    def velocity(self, _: float, state: np.ndarray) -> np.ndarray:
        first, second = self.weights(state)
        wrong, decay = self.errors(first, second, self.gate)
        gate = np.nan_to_num(self.gate)
        moved = (gate * (second @ wrong.T)) @ self.x
        for h in np.flatnonzero(np.isnan(self.gate).any(axis=1)):
            on = self.x[np.isnan(self.gate[h])]
            moved[h] -= np.linalg.pinv(on) @ (on @ moved[h])
        turned = (gate * (first @ self.x.T)) @ wrong
        return np.concatenate([(moved - decay * first).ravel(), (turned - decay * second).ravel()])

    def holding(self, state: np.ndarray, h: int, on: list[int]) -> np.ndarray:
        """The derivatives that would hold neuron h on some lines."""
        first, second = self.weights(state)
        wrong, _ = self.errors(first, second, self.gate)
        gate = self.gate[h].copy()
        gate[on] = 0.0
        felt = np.nan_to_num(gate) * (wrong @ second[h])
        columns = (self.x[on] * (wrong @ second[h])[on, None]).T
        return np.linalg.lstsq(columns, -(felt @ self.x), rcond=None)[0]

    def margins(self) -> list[tuple[str, int, int]]:
        """What may happen: ("cross", h, i), and ("low" or "high", h, i) where neuron h slides on i."""
        found = []
        for h, i in itertools.product(*map(range, self.gate.shape)):
            if np.isnan(self.gate[h, i]):
                found += [("low", h, i), ("high", h, i)]
            else:
                found.append(("cross", h, i))
        return found

    def margin(self, which: tuple[str, int, int], state: np.ndarray) -> float:
        kind, h, i = which
        if kind == "cross":
            w, x = self.weights(state)[0][h], self.x[i]
            # A neuron that dies on the line it crosses stays there, and rounding is no crossing.
            beyond = _ROUNDING * float(np.linalg.norm(w) * np.linalg.norm(x))
            return float((1.0 if self.gate[h, i] == 1 else -1.0) * (w @ x)) + beyond
        on = np.flatnonzero(np.isnan(self.gate[h])).tolist()
        value = float(self.holding(state, h, on)[on.index(i)])
        return value - self.slope if kind == "low" else 1.0 - value

    def watched(self, which: tuple[str, int, int], state: np.ndarray) -> float:
        """``margin``, of a slide times what attracts it: that has no pole where the attraction vanishes, just after."""
        kind, h, i = which
        if kind == "cross":
            return self.margin(which, state)
        first, second = self.weights(state)
        wrong, _ = self.errors(first, second, self.gate)
        return -float(wrong[i] @ second[h]) * self.margin(which, state)

    def settle(self, h: int, on: list[int]) -> None:
        """Choose what neuron h does on lines it lies on: the one choice that is consistent with its own velocity."""
        second = self.weights(self.state)[1]
        came = self.gate[h].copy()
        for choice in itertools.product((1.0, self.slope, np.nan), repeat=len(on)):
            self.gate[h, on] = choice
            wrong, _ = self.errors(*self.weights(self.state), self.gate)
            speed = self.weights(self.velocity(0.0, self.state))[0][h] @ self.x[on].T
            pulls = (wrong @ second[h])[on]
            held = [i for i, gate in zip(on, choice, strict=True) if np.isnan(gate)]
            gates = self.holding(self.state, h, held) if held else np.zeros(0)
            consistent = bool(np.all((gates >= self.slope) & (gates <= 1)))
            for gate, pace, pull in zip(choice, speed, pulls, strict=True):
                if np.isnan(gate):
                    consistent &= bool(pull < 0)
                else:
                    consistent &= bool((pace > 0) if gate == 1 else (pace < 0))
            if consistent:
                return
        raise RuntimeError(f"nothing is consistent for neuron {h} on {on}; it came with {came[on]}")


def several_flow(
    inputs: Any, targets: Any, first: Any, second: Any, *, slope: float, loss: str, until: float, save: np.ndarray,
    decay: float = 0.0, clock: str = "time", rtol: float = 1e-10, most: int = 400,
) -> Run:  # fmt: skip
    """From weights ``first`` (width, dim) and ``second`` (outputs, width) to ``until``."""
    flow = Flow(inputs, targets, first, second, slope, loss, decay)
    flow.by_loss = clock == "loss"
    time, events, slides, saved = 0.0, 0, 0, []
    while time < until:
        kinds = flow.margins()

        def watch(which: tuple[str, int, int]) -> Any:
            def event(_: float, state: np.ndarray) -> float:
                return flow.watched(which, state)

            event.terminal, event.direction = True, -1  # type: ignore[attr-defined]
            return event

        sizes = np.repeat(np.abs(flow.state).max(), len(flow.state))
        found = solve_ivp(
            flow.velocity, (time, until), flow.state, "DOP853", dense_output=True, max_step=until / _MOST,
            events=[watch(which) for which in kinds], rtol=rtol, atol=rtol * 1e-3 * sizes,
        )  # fmt: skip
        while len(saved) < len(save) and save[len(saved)] <= found.t[-1]:
            saved.append(found.sol(save[len(saved)]))
        time, flow.state = float(found.t[-1]), found.y[:, -1]
        if found.status != 1:
            break
        events += 1
        if events > most:
            raise RuntimeError(f"more than {most} events")
        kind, h, i = kinds[int(np.argmax([bool(len(each)) for each in found.t_events]))]
        if kind == "cross":
            on = sorted({i, *np.flatnonzero(np.isnan(flow.gate[h])).tolist()})
            cut = flow.weights(flow.state)[0][h]
            cut -= np.linalg.pinv(flow.x[on]) @ (flow.x[on] @ cut)
            flow.settle(h, on)
        # At the end of a slide a neuron goes to the side whose derivative is reached; others may be there too.
        for each in [
            which for which in flow.margins() if which[0] != "cross" and flow.margin(which, flow.state) < _ENDED
        ]:
            flow.gate[each[1], each[2]] = slope if each[0] == "low" else 1.0
        slides += int(np.isnan(flow.gate[h]).any())
        # A line just left is watched again once the neuron is off it.
        end = min(until, time + 1e-6 * until)
        short = solve_ivp(flow.velocity, (time, end), flow.state, "DOP853", rtol=rtol, atol=rtol * 1e-3 * sizes)
        while len(saved) < len(save) and save[len(saved)] <= short.t[-1]:
            saved.append(short.y[:, -1])
        time, flow.state = float(short.t[-1]), short.y[:, -1]
    parts = [flow.weights(state) for state in saved]
    losses = []
    for w, v in parts:
        before = w @ flow.x.T
        losses.append(np.exp(flow.log_loss(np.where(before > 0, before, slope * before).T @ v)))
    return Run(
        save, np.array(losses), np.array([w for w, _ in parts]), np.array([v.T for _, v in parts]), events, slides
    )
