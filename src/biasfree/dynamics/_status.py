"""How a run ended: the names and the sentences, once."""

from typing import NamedTuple


class Status(NamedTuple):
    """How a run ended: a short name, and a sentence."""

    name: str
    message: str

    @property
    def complete(self) -> bool:
        """Whether the run did what was asked, as against being cut short or not to be trusted."""
        return self.name in ("reached", "loss level", "converged")

    def saying(self, more: str) -> "Status":
        """The same with another sentence at its end; none if it is empty."""
        return self._replace(message=f"{self.message} {more}") if more else self


# What was asked for


def reached(axis: str, until: float) -> Status:
    """The time asked for."""
    return Status("reached", f"reached {axis} = {until:g}.")


def at_level(axis: str, time: float) -> Status:
    """The loss level asked for."""
    return Status("loss level", f"the loss fell to the level asked for at {axis} = {time:.6g}.")


def at_level_from_start() -> Status:
    """Nothing to do."""
    return Status("loss level", "the loss was at the level asked for from the start.")


def converged(time: float) -> Status:
    """Rest for good, as was asked for."""
    return Status("converged", f"converged at t = {time:.6g}; the last state is where the flow comes to rest.")


def stands_still(axis: str, start: float) -> Status:
    """Rest from the start, where rest was asked for."""
    return Status("converged", f"converged at {axis} = {start:.6g}: {STATIONARY}")


STATIONARY = "the start is a stationary point, a minimum or a saddle; the gradient is exactly zero and nothing moves."


def never_at_level() -> Status:
    """A level is waited for without end where nothing moves."""
    return Status("stationary", "the loss level asked for is never met.")


def descended(steps: int, rate: float) -> Status:
    """All steps of a descent."""
    return Status("reached", f"took {steps} steps of {rate:g}, flow time {rate * steps:g}.")


# What is said beside how it ended


def happened(table: str) -> str:
    """Events, counted."""
    return f"Events: {table}."


BRANCHED = (
    "At a branch the flow is not unique: the v of a sliding neuron vanished, a neuron began on a line that it may "
    "leave to either side, or one stood at w = 0 or where lines that depend on each other meet. One stated rule was "
    "followed (docs/exact.md)."
)
NOTHING_INTEGRATED = f"Nothing was integrated: {STATIONARY}"
ONE_FOR_ALL = "The table of events would be too long for all: it names one neuron of each group."


def leapt(axis: str, begin: float, end: float, switches: int) -> str:
    """The early phase of adaptive steps."""
    return f"The early phase from {axis} = {begin:.6g} to {end:.6g} is in closed form, with {switches} switches."


def came_to_rest(since: float) -> str:
    """The end of adaptive steps."""
    return f"It was coming to rest, in closed form, from t = {since:.6g} on."


def chattered(steps: int, of: int, smallest: float) -> str:
    """Adaptive steps where neurons slide."""
    return (
        f"It chattered: in {steps} of {of} steps, the smallest of them {smallest:.3g}, neurons crossed an activation "
        "boundary straight back; where they slide along it, they are followed to about such a step only."
    )


# Cut short


def interrupted(axis: str, time: float) -> Status:
    """By the user."""
    return Status("interrupted", f"interrupted at {axis} = {time:.6g}; all until then is kept.")


def out_of_steps(axis: str, time: float, most: int) -> Status:
    """As many steps as were allowed."""
    return Status(
        "step limit",
        f"stopped at {axis} = {time:.6g} after {most} steps. "
        "Try increasing max_steps, a larger rtol, or a larger smallest_step.",
    )


def out_of_work(axis: str, time: float, until: float, steps: int) -> Status:
    """As much work as a run may cost unasked."""
    return Status(
        "step limit",
        f"stopped at {axis} = {time:.6g} of {until:g} after {steps} steps: the problem is stiff, or its events many, "
        "and this is as much work as a run does unasked. To go on, name the method, or give a limit of your own, say "
        f"max_steps={10 * steps}; a larger rtol, or a shorter time, needs less.",
    )


def out_of_reach(axis: str, time: float, until: float) -> Status:
    """Hardly any way made in many steps."""
    return Status(
        "step limit",
        f"stopped at {axis} = {time:.3g}: at this pace {axis} = {until:g} is out of reach. "
        "The problem is too stiff; rescale the data, or ask for a shorter time.",
    )


def no_smaller_step(axis: str, time: float) -> Status:
    """The step that the tolerance asks for vanishes beside the time."""
    return Status(
        "stuck",
        f"stopped at {axis} = {time:.6g}: the step that rtol asks for is below what float64 can add to this time; all "
        "weights are finite. Use a larger rtol, or rescale the data.",
    )


def flooded(axis: str, time: float) -> Status:
    """Events follow each other without any time between them."""
    return Status("stuck", f"stopped at {axis} = {time:.6g} by events without end. Use another method.")


def unresolved(axis: str, time: float, level: float) -> Status:
    """Margins so large that float64 does not resolve them."""
    return Status(
        "precision limit",
        f"stopped at {axis} = {time:.6g}, ln L = {level:.3g}: float64 does not resolve margins of this size. "
        "Stop at a log-loss level above it.",
    )


def not_finite(axis: str, time: float) -> Status:
    """Weights or their velocities overflow."""
    return Status(
        "not finite",
        f"the weights stopped being finite beyond {axis} = {time:.6g}; what is kept ends there. "
        "Start smaller, rescale the data, or lower until.",
    )


def diverged(step: int, following: int, rate: float) -> Status:
    """A descent whose weights overflow."""
    return Status(
        "not finite",
        f"diverged between steps {step} and {following}; what is kept ends at step {step}. "
        f"Try a learning rate below {rate:g}.",
    )


# Not to be trusted


class Refusal(NamedTuple):
    """Why a result is not to be trusted: the name of its status, what was found, and what to do about it."""

    name: str
    finding: str
    advice: str

    @property
    def brief(self) -> str:
        """The finding alone, to follow "the result was"."""
        return f"not to be trusted: {self.finding}"


class Gauge(NamedTuple):
    """What a gauge is called, and what to do where it is too large."""

    title: str
    advice: str = "Use a smaller rtol, or another method."


BALANCE = Gauge("the balance drift")
ENERGY = Gauge("the energy gap")
ADMISSIBILITY = Gauge("the inadmissible slide")
RISE = Gauge("the rise of the objective above its start")
REGROWTH = Gauge(
    "what rounding may have made of neurons that faded and grew again",
    "Use a smaller rtol; if that says the same, float64 cannot tell, and only larger first weights would.",
)
NOT_RUN_AGAIN = (
    "With several outputs finished runs are run again in turned axes; this one was not, and what rounding or rtol "
    "decided on its plateaus is not known."
)
ONLY_TO = "The second run, by which it is judged, came to {:.6g} only."
RERUN = Gauge(
    "the difference from a second run, in turned axes and at a tenth of rtol,",
    "A saddle or a boundary was passed so closely that rounding or rtol decided how. Use a smaller rtol; if that says "
    "the same, float64 cannot tell.",
)
_RESCALE = "Rescale the data, or use another method."


def too_large(gauge: Gauge, value: float, limit: float) -> Refusal:
    """A gauge above its limit."""
    return Refusal("inaccurate", f"{gauge.title} is {value:.2g}, above {limit:.2g}", gauge.advice)


def weights_not_finite(time: float) -> Refusal:
    """Saved weights that are no numbers."""
    return Refusal("not finite", f"the weights at {time:.6g} are not finite", _RESCALE)


def loss_not_a_number(time: float) -> Refusal:
    """A loss that is none."""
    return Refusal("not finite", f"the loss at {time:.6g} is not a number", _RESCALE)


def loss_not_zero(time: float) -> Refusal:
    """A loss that is not what it was said to be."""
    return Refusal("not finite", f"the loss at {time:.6g} was said to be 0 and is not", "Use another method.")


def refused(refusal: Refusal, ended: Status) -> Status:
    """Its name in place of a success; a run that was cut short anyway keeps its name and gets the sentence."""
    message = f"{refusal.brief}. {refusal.advice} The run itself says: {ended.message}"
    return Status(refusal.name if ended.complete else ended.name, message)


# Why a run is not the one that was chosen first


def because_stuck(axis: str, time: float, method: str) -> str:
    """Another method went on."""
    return f"the exact flow was stuck at {axis} = {time:.6g}; {method} went on from there"


def because_refused_at(because: str, rtol: float, refusal: Refusal) -> str:
    """The same method at a smaller tolerance."""
    return f"{because}; the result at rtol {rtol:g} was {refusal.brief}"


def because_refused(refusal: Refusal) -> str:
    """Another method from the start."""
    return f"the exact flow's result was {refusal.brief}"
