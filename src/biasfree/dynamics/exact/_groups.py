"""Groups of neurons that act as one (``_merging`` says why), each by itself."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._kernels import engine
from biasfree.native import WHOLE, address

AT_ONCE = 4096  # neurons that are worked on together: making larger arrays costs more than what is done with them
LARGE = 1000  # neurons, or their parts in rows, from which a group is worth linear algebra of its own
_DUST = 1e-15  # bound: 4.5 ε, what rounding leaves of a part that is none
ONE = np.ones((1, 1))  # the parts of a neuron by itself


class _Group(NamedTuple):
    """Neurons that are one.

    Attributes:
        members: their numbers.
        parts: U: each member as a combination of the group's rows s_kv_kᵀ, the leading one first.
    """

    members: Int[np.ndarray, "members"]
    parts: Float[np.ndarray, "members rows"]


class Group(_Group):
    """``_Group``, and what is found once, however often others are regrouped."""

    @functools.cached_property
    def spread(self) -> Float[np.ndarray, "passive"]:
        """For each passive row the largest part that a member has in it, in units of its part in the leading row."""
        return self.spread_of(None)

    def spread_of(self, some: np.ndarray | None) -> Float[np.ndarray, "passive"]:
        """The same of some members; infinite where one has no part in the leading row."""
        most = np.zeros(self.parts.shape[1] - 1)
        for begin in range(0, len(self.parts), AT_ONCE):
            own = self.parts[begin : begin + AT_ONCE]
            if some is not None:
                own = own[some[begin : begin + AT_ONCE]]
            with np.errstate(divide="ignore"):
                np.maximum(most, np.abs(own[:, 1:] / own[:, :1]).max(axis=0, initial=0.0), out=most)
        return most


class Formed(NamedTuple):
    """A group, and its rows as they are."""

    group: Group
    rows: Float[np.ndarray, "rows columns"]

    def renamed(self, members: Int[np.ndarray, "neurons"]) -> "Formed":
        """With other numbers for its members, which were places among these."""
        return Formed(Group(members[self.group.members], self.group.parts), self.rows)


Known = Callable[[Int[np.ndarray, "members"]], Formed | None]  # of members, groups whose differences have their digits


def singles(members: Int[np.ndarray, "members"], own: Float[np.ndarray, "members columns"]) -> list[Formed]:
    """Each of these neurons by itself."""
    return [Formed(Group(members[n : n + 1], ONE), own[n : n + 1]) for n in range(len(members))]


def several(members: Sequence[Int[np.ndarray, "members"]], neurons: Float[np.ndarray, "width columns"]) -> list[Formed]:
    """Each of these lists of neurons as one."""
    first = neurons[[some[0] for some in members]] if members else neurons[:0]  # all at once: most are alone
    small = [some for some in members if 1 < len(some) <= LARGE]
    formed = iter(_decomposed(small, neurons) if small else [])
    return [
        Formed(Group(some, ONE), first[n : n + 1]) if len(some) == 1
        else next(formed) if len(some) <= LARGE else _of_many(some, neurons[some])
        for n, some in enumerate(members)
    ]  # fmt: skip


def grouped(members: Int[np.ndarray, "members"], neurons: Float[np.ndarray, "width columns"]) -> Formed:
    """Some neurons as one."""
    if not len(members):
        return Formed(Group(members, np.ones((0, 0))), neurons[:0])
    return several([members], neurons)[0]


def _decomposed(
    members: Sequence[Int[np.ndarray, "members"]], neurons: Float[np.ndarray, "width columns"]
) -> list[Formed]:
    """Groups by their singular value decompositions (``native/singular.c``)."""
    counts = [len(some) for some in members]
    begin, columns = np.cumsum([0, *counts]), neurons.shape[1]
    own = neurons[np.concatenate(members)]
    parts, rows = np.empty(own.size), np.empty((len(members), columns, columns))
    ranks, room = np.empty(len(members), dtype=np.int64), np.empty((max(counts) + columns + 1) * columns)
    engine().biasfree_grouped(
        len(members), address(begin, WHOLE), address(own), columns, _DUST, address(parts), address(rows),
        address(ranks, WHOLE), address(room),
    )  # fmt: skip
    if not ranks.all():
        raise np.linalg.LinAlgError("the singular values of a group of neurons were not found.")
    found = zip(members, (begin[:-1] * columns).tolist(), ranks.tolist(), rows, strict=True)
    return [
        Formed(Group(some, parts[first : first + len(some) * rank].reshape(len(some), rank)), each[:rank])
        for some, first, rank, each in found
    ]


def _of_many(members: Int[np.ndarray, "members"], own: Float[np.ndarray, "members columns"]) -> Formed:
    """The same of very many neurons: V from ZᵀZ, for projections on it are as good, and far cheaper."""
    largest = np.abs(own).max()
    own = own / largest
    rows = np.linalg.eigh(own.T @ own)[1].T[::-1]
    parts = own @ rows.T
    sizes = np.linalg.norm(parts, axis=0)
    kept = sizes > _DUST * sizes[0]
    parts, rows = parts[:, kept] / sizes[kept], (largest * sizes[kept])[:, None] * rows[kept]
    if parts[:, 0].sum() < 0:
        parts[:, 0], rows[0] = -parts[:, 0], -rows[0]
    return Formed(Group(members, parts), rows)


def orthonormal(formed: Formed) -> Formed:
    """The same neurons by rows across each other, with orthonormal parts: where no line matters all make the output.

    A row gets something of smaller ones thereby, and nothing of larger ones. There are no more than columns.
    """
    (members, parts), rows = _largest_first(straightened(_largest_first(formed)))
    parts, mixed = np.linalg.qr(parts[:, : rows.shape[1]])
    return Formed(Group(members, parts), mixed @ rows[: rows.shape[1]])


def _largest_first(formed: Formed) -> Formed:
    """With the rows in order of their sizes."""
    (members, parts), rows = formed
    order = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
    return Formed(Group(members, parts[:, order]), rows[order])


def of_terms(
    members: Int[np.ndarray, "members"],
    coefficients: Float[np.ndarray, "members terms"],
    terms: Float[np.ndarray, "terms columns"],
) -> Formed:
    """Neurons as one that are sums of the same terms, some of which may be 1e-100 of others: none is lost beside these.

    With the largest terms first QRᵀ of the coefficients has rows RT of terms no larger than the first of each.
    """
    order = np.argsort(-np.abs(terms).max(axis=1), kind="stable")
    parts, mixed = np.linalg.qr(coefficients[:, order])
    rows = mixed @ terms[order]
    if parts[:, 0].sum() < 0:
        parts[:, 0], rows[0] = -parts[:, 0], -rows[0]
    group, rows = straightened(Formed(Group(members, parts), rows))
    some = rows.any(axis=1)
    return Formed(Group(members, parts=group.parts[:, some]), rows[some])


def straightened(formed: Formed) -> Formed:
    """The same neurons by rows each of which is across those before it, and keeps all its digits.

    Of a difference that lies along the leading row nothing is left to say but how much of that row a neuron is.
    """
    parts, rows = formed.group.parts.copy(), formed.rows.copy()
    sizes = np.abs(rows).max(axis=1)
    for k in range(1, len(rows)):
        for j in [*range(k)] * 2:
            if sizes[j] > 0:
                other = rows[j] / sizes[j]
                part = float(rows[k] @ other / (other @ other))
                rows[k] -= part * other
                parts[:, j] += parts[:, k] * (part / sizes[j])
        sizes[k] = np.abs(rows[k]).max()  # of what is left, which may be nothing
    size = float(np.linalg.norm(parts[:, 0]))
    parts[:, 0] /= size
    rows[0] *= size
    return Formed(Group(formed.group.members, parts), rows)
