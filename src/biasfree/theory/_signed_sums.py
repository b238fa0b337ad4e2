"""The largest signed sum over half spaces: max_r ‖Σ_l sgn(rᵀd_l) a_l d_lᵀ‖ over directions r.

The sum is constant on the cells into which the hyperplanes rᵀd_l = 0 cut the sphere, and an average of neighbouring
cells between them, so that open cells suffice; −r gives its negative.

- **In a plane** half a turn of r meets every cell, and each hyperplane changes one sign: O(lines · log(lines)).
- **In space** every cell has an edge, part of the great circle on which some rᵀd_l = 0. Half a turn along each of these
  circles, with either sign for line l, meets every cell: O(lines² · log(lines)).
- **Beyond**, a search climbs along great circles. What it finds is a lower bound. For the upper one, write v_l for
  a_l d_lᵀ as a vector; for any weights p_l > 0

      ‖Σ s_l v_l‖ ≤ max_{‖u‖=1} Σ |v_lᵀu| ≤ √( Σ 1/p_l · λ_max(Σ p_l v_l v_lᵀ) ).

  This allows all signs, not only those of half spaces, and is far above the maximum for many lines that do not cancel.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

# Hyperplanes at a smaller angle leave no cell between them that a direction in floating point could lie in.
_NARROWEST = 1e-14
# Numbers held at once while all cells along a circle are summed, and multiplications spent on each bound.
_HELD, _SPENT = 2e5, 1e9
# Circles per start, and circles without success before the next start.
_CIRCLES, _PATIENCE = 4, 6


@dataclass(frozen=True)
class SignedSum:
    """The map r ↦ Σ_l sgn(rᵀd_l) a_l d_lᵀ.

    Attributes:
        left: a_l, shape (lines, outputs).
        directions: d_l, unit vectors on distinct lines that span the space, shape (lines, dim).
    """

    left: Float[np.ndarray, "lines outputs"]
    directions: Float[np.ndarray, "lines dim"]

    def matrix(self, r: Float[np.ndarray, "dim"]) -> Float[np.ndarray, "outputs dim"]:
        """Its value."""
        return (self.left * np.sign(self.directions @ r)[:, None]).T @ self.directions

    def size(self, r: Float[np.ndarray, "dim"]) -> float:
        """Frobenius norm of its value."""
        return float(np.linalg.norm(self.matrix(r)))

    def largest(
        self, starts: Float[np.ndarray, "starts dim"], rng: np.random.Generator, effort: int
    ) -> tuple[Float[np.ndarray, "dim"], float, float]:
        """The best r known, an upper bound of the norm, and the root mean square of the norm over all r.

        Args:
            starts: directions worth a try.
            rng: of the search.
            effort: how many random directions to try, fewer if there are very many lines.
        """
        lines, dim = self.directions.shape
        entries = self.left.shape[1] * dim
        if dim <= 2:
            plane = np.eye(dim, 2)
            angles, widths, sums = _half_turn(self.directions @ plane, self._terms())
            sizes = np.linalg.norm(sums, axis=1)
            top = np.argmax(np.where(widths > _NARROWEST, sizes, 0.0))
            return _at(angles[top], plane), float(sizes[top]), float(np.sqrt(widths @ sizes**2 / np.pi))
        # The circles that go with a start take some thirty passes over all lines.
        affordable = max(4, int(_SPENT / (lines * (entries + 30 * dim))))
        drawn = rng.normal(size=(min(effort, affordable), dim))
        sizes = np.array([self.size(r) for r in drawn])
        typical = float(np.sqrt(np.mean(sizes**2)))
        if dim == 3 and lines**2 * entries <= 100 * _HELD:
            terms = self._terms()
            edges = (self._edge(np.array([line]), np.ones(1), terms) for line in range(lines))
            best, upper = max(edges, key=lambda edge: edge[1])
            return best, upper, typical
        return self._search(drawn, sizes, starts, rng), self._ceiling(), typical

    def _terms(self) -> Float[np.ndarray, "lines entries"]:
        """The matrices a_l d_lᵀ, flattened."""
        return np.einsum("lk,ld->lkd", self.left, self.directions).reshape(len(self.left), -1)

    def _search(
        self,
        drawn: Float[np.ndarray, "drawn dim"],
        sizes: Float[np.ndarray, "drawn"],
        starts: Float[np.ndarray, "starts dim"],
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "dim"]:
        """The best direction found: climbs from random directions, from starts and from lines of great weight."""
        weights = np.linalg.norm(self.left, axis=1)
        share = len(drawn) // 4
        near = np.concatenate(
            [starts[:share], self.directions[rng.choice(len(weights), share, p=weights / weights.sum())]]
        )
        # Off the hyperplanes of lines orthogonal to them.
        near = near + 1e-3 * np.linalg.norm(near, axis=1, keepdims=True) * rng.normal(size=near.shape)
        sizes = np.concatenate([sizes, [self.size(r) for r in near]])
        drawn = np.concatenate([drawn, near])
        best, top, circles = drawn[0], -1.0, _CIRCLES * len(drawn)
        for start in np.argsort(-sizes):
            r, size, used = self._climb(drawn[start], rng, circles)
            if size > top:
                best, top = r, size
            circles -= used
            if circles <= 0:
                break
        return best

    def _climb(self, r: np.ndarray, rng: np.random.Generator, circles: int) -> tuple[np.ndarray, float, int]:
        """Follow great circles, each to its best cell, as long as that helps; the end, its norm, and the circles used.

        With M the value at r, scaled to norm 1, and g_l = a_lᵀMd_l, the sum Σ_l g_l sgn(r'ᵀd_l) is a lower bound of the
        norm at any r', and the norm itself at r. Where the matrices along a circle are too many to hold, it stands for
        the norm.

        In turn: a circle through r towards the side that the lines of the wrong sign, g_l sgn(rᵀd_l) < 0, ask for, as a
        perceptron would go; a circle on which dim − 2 lines drawn at random vanish, with the signs of their g_l beside
        it; the same with lines whose hyperplanes are near r.
        """
        lines, dim = self.directions.shape
        held = self._terms() if lines * self.left.shape[1] * dim <= _HELD else None
        r = r / np.linalg.norm(r)
        matrix = self.matrix(r)
        failures, used, better = 0, 0, True
        while used < circles and failures < _PATIENCE:
            if better:
                size = float(np.linalg.norm(matrix))
                gains = np.einsum("lk,lk->l", self.left, self.directions @ matrix.T) / (size or 1.0)
                margins = self.directions @ r
                wrong = gains * margins < 0
                terms = gains[:, None] if held is None else held
            if failures % 3 == 0 and wrong.any():
                candidate = self._circle(r, (gains * wrong) @ self.directions, terms)
            else:
                near = 1 / (np.abs(margins) + _NARROWEST) if failures % 3 == 2 else np.ones(lines)
                chosen = rng.choice(lines, dim - 2, replace=False, p=near / near.sum())
                candidate, _ = self._edge(chosen, np.where(gains[chosen] < 0, -1.0, 1.0), terms)
            used += 1
            trial = self.matrix(candidate)
            better = float(np.linalg.norm(trial)) > size * (1 + _NARROWEST)
            if better:
                r, matrix = candidate, trial
            failures = 0 if better else failures + 1
        return r, float(np.linalg.norm(matrix)), used

    def _circle(self, r: np.ndarray, towards: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """The best direction on the great circle through r and ``towards``."""
        plane = np.linalg.qr(np.column_stack([r, towards]))[0]
        angles, widths, sums = _half_turn(self.directions @ plane, terms)
        return _at(angles[np.argmax(np.where(widths > _NARROWEST, np.linalg.norm(sums, axis=1), 0.0))], plane)

    def _edge(
        self, chosen: Int[np.ndarray, "dim-2"], signs: Float[np.ndarray, "dim-2"], terms: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """The best direction beside the great circle on which the chosen lines vanish, and the norm of the sum there.

        They get the given signs, or all the opposite ones.
        """
        left, sizes, right = np.linalg.svd(self.directions[chosen])
        plane = right[-2:].T
        off = (signs @ left / np.maximum(sizes, _NARROWEST)) @ right[:-2]
        flat = self.directions @ plane
        flat[chosen] = 0.0
        angles, widths, sums = _half_turn(flat, terms)
        both = np.stack([np.linalg.norm(sums + sign * (signs @ terms[chosen]), axis=1) for sign in (1, -1)])
        side, best = np.unravel_index(np.argmax(np.where(widths > _NARROWEST, both, 0.0)), both.shape)
        r = _at(angles[best], plane)
        margins = np.abs(self.directions @ r)
        margins[chosen] = np.inf
        room = np.min(margins / np.maximum(np.abs(self.directions @ off), _NARROWEST))
        return r + (0.5 if side == 0 else -0.5) * min(room, 1.0) * off, float(both[side, best])

    def _ceiling(self) -> float:
        """An upper bound of the norm over all signs, with the weights p_l that serve best.

        Weights p_l = 1/√(v_lᵀXv_l), X ⪰ 0 of trace 1, are best for the X that makes F = Σ √(v_lᵀXv_l) largest; there
        λ_max = F. The iteration X ← X^½ G X^½ / F, G = Σ p_l v_l v_lᵀ, goes there, and each step gives a bound.
        Where the v_l have too many entries, |a_lᵀMd_l| ≤ ‖a_l‖ ‖Md_l‖ puts ‖a_l‖ d_l in their place.
        """
        lines, outputs = self.left.shape
        if 20 * lines * (outputs * self.directions.shape[1]) ** 2 <= _SPENT:
            vectors = self._terms()
        else:
            vectors = np.linalg.norm(self.left, axis=1, keepdims=True) * self.directions
        entries = vectors.shape[1]
        least = 1e-12 * np.linalg.norm(vectors, axis=1)
        root, bound = np.eye(entries) / np.sqrt(entries), np.inf
        for _ in range(int(np.clip(_SPENT / (lines * entries**2), 2, 100))):
            inverse = np.maximum(np.linalg.norm(vectors @ root, axis=1), least)
            gram = vectors.T @ (vectors / inverse[:, None])
            value, top = inverse.sum(), np.linalg.eigvalsh(gram)[-1]
            bound = min(bound, float(np.sqrt(value * top)))
            if top <= value * (1 + 1e-3):
                break
            spectrum, frame = np.linalg.eigh(root @ gram @ root)
            spectrum = np.maximum(spectrum, 0.0)
            root = (frame * np.sqrt(spectrum / spectrum.sum())) @ frame.T
        return bound


def _half_turn(
    flat: Float[np.ndarray, "lines 2"], terms: Float[np.ndarray, "lines entries"]
) -> tuple[Float[np.ndarray, "cells"], Float[np.ndarray, "cells"], Float[np.ndarray, "cells entries"]]:
    """Σ_l sgn(rᵀd_l) v_l as r turns by π in a plane, where the lines are ``flat``; those that vanish there count for 0.

    Returns:
        For each cell on the way the angle of its middle, its width, and the sum.
    """
    edges = np.mod(np.arctan2(flat[:, 1], flat[:, 0]) + np.pi / 2, np.pi)
    order = np.argsort(edges)
    widths = np.diff(np.append(edges[order], edges[order[0]] + np.pi))
    # From the widest cell on, whose signs are beyond doubt.
    first = int(np.argmax(widths))
    order, widths = np.roll(order, -first), np.roll(widths, -first)
    angles = edges[order[0]] + np.cumsum(widths) - widths / 2
    signs = np.sign(flat @ np.array([np.cos(angles[0]), np.sin(angles[0])]))
    steps = -2 * signs[order, None] * terms[order]
    steps[0] = signs @ terms
    return angles, widths, np.cumsum(steps, axis=0)


def _at(angle: float, plane: Float[np.ndarray, "dim 2"]) -> Float[np.ndarray, "dim"]:
    """The unit vector at this angle in the plane."""
    return plane @ np.array([np.cos(angle), np.sin(angle)])
