/* Polynomials of degree 7 by Bernstein coefficients. */

#include "engine.h"

const double COUNTS[NODES] = {1, 7, 21, 35, 35, 21, 7, 1}; /* C(7, n) */

/* Bernstein's polynomials of degree 7 at x. */
void bernstein(double x, double *weights) {
    double up = 1.0, down = 1.0;
    for (int n = 0; n < NODES; n++) {
        weights[n] = COUNTS[n] * up;
        up *= x;
    }
    for (int n = NODES - 1; n >= 0; n--) {
        weights[n] *= down;
        down *= 1.0 - x;
    }
}

/* Where some of the `curves`, (curves, 8, rows, columns), are at x ∈ [0, 1] of each, and what their `energies`,
   (curves, 8), are there: of the rows that are named, or of all. Others of `states`, (count, rows, columns), stay as
   they are. */
PUBLIC void biasfree_along(int64_t count, const int64_t *number, const double *x, const double *curves,
                           const double *energies, int64_t rows, int64_t columns, const int64_t *which, int64_t named,
                           double *states, double *reached) {
    const int64_t size = rows * columns;
    for (int64_t n = 0; n < count; n++) {
        const double *curve = curves + number[n] * NODES * size, *energy = energies + number[n] * NODES;
        double weights[NODES], *state = states + n * size;
        bernstein(x[n], weights);
        reached[n] = 0.0;
        for (int k = 0; k < NODES; k++) reached[n] += weights[k] * energy[k];
        if (!which) add_up(weights, NODES, curve, size, state);
        for (int64_t i = 0; which && i < named; i++)
            for (int64_t entry = which[i] * columns; entry < (which[i] + 1) * columns; entry++) {
                state[entry] = 0.0;
                for (int k = 0; k < NODES; k++) state[entry] += weights[k] * curve[k * size + entry];
            }
    }
}
