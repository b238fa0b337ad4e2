/* Rows that ride along a way: too small for the output to notice, each moves by pulls that are known
   (biasfree/dynamics/exact/_late.py and _light.py). */

#include "late.h"

enum { PACES = 6 };        /* numbers in (3, 2) */

/* Growth of a light row over an arc beyond which eight points do not follow it. Chosen: e^{rt} that grows so much is
   1.5e-3 of its end away from the polynomial through the nodes, 3.5e-5 where it grows a hundredfold. Were it larger,
   rows between nodes would be worse; were it smaller, there would be more steps. */
#define OVERGROWN 1e4
/* A size far below anything that could grow again in a run, as in _carried.py. Chosen: decay does not make less of
   float64's least numbers, of which those from 2e-308 down lose digits. */
#define VANISHES 1e-280
/* Of its first size, what a heavy row may fade to in a step: it is a sum of modes, which cancel. Chosen: three of its
   digits are lost then. Were it smaller, more would be; were it larger, there would be more steps. */
#define FADED 1e-3
/* Of a light row, the part that is not seen. Chosen: below the tolerances that are usual, above rounding. Were it
   smaller, parts that have faded would make arcs short for longer. */
#define UNNOTICED 1e-12

/* Singular values of M, beside the largest, that are none. Bound: 4.5 ε, what rounding leaves of a rank that is not full;
   rotations would turn that for ever, and what it makes a row grow by in an arc is nothing. */
#define DUST 1e-15

/* e^{tA}z of one row with A = [[−λ, M], [Mᵀ, −λ]]: along M's singular vectors a hyperbolic rotation, elsewhere only
   decay. cosh and sinh go with the decay, each exponential by itself: neither overflows unless the row does. `room` is
   for (dim + outputs, outputs). */
static void propagate(const double *row, const double *matrix, double decay, double time, int64_t dim, int64_t outputs,
                      double *to, double *room) {
    const double fades = exp(-decay * time);
    double *left = room, *right = room + dim * outputs;
    int moves = 0;
    for (int64_t j = 0; j < dim + outputs; j++) {
        to[j] = fades * row[j];
        moves = moves || row[j] != 0.0;
    }
    if (!moves) { /* what would make it grow may overflow */
        memset(to, 0, sizeof(double) * (size_t)(dim + outputs));
        return;
    }
    memcpy(left, matrix, sizeof(double) * (size_t)(dim * outputs));
    rotate(left, right, dim, outputs, DUST);
    for (int64_t k = 0; k < outputs; k++) {
        double square = 0.0, one = 0.0, other = 0.0;
        for (int64_t j = 0; j < dim; j++) square += left[j * outputs + k] * left[j * outputs + k];
        const double size = sqrt(square);
        if (size == 0.0) continue;
        for (int64_t j = 0; j < dim; j++) { /* of length one: so w = ±v stays exact in one dimension */
            left[j * outputs + k] /= size;
            one += left[j * outputs + k] * row[j];
        }
        for (int64_t i = 0; i < outputs; i++) other += right[i * outputs + k] * row[dim + i];
        const double rises = exp(time * (size - decay)), falls = exp(-time * (size + decay));
        const double grown = 0.5 * (rises + falls) - fades, turned = 0.5 * (rises - falls);
        const double first = grown * one + turned * other, second = turned * one + grown * other;
        for (int64_t j = 0; j < dim; j++) to[j] += left[j * outputs + k] * first;
        for (int64_t i = 0; i < outputs; i++) to[dim + i] += right[i * outputs + k] * second;
    }
}

/* Rows some times later, (times, rows, columns), each pulled by its own matrix all along. */
PUBLIC void biasfree_propagated(int64_t times, const double *when, int64_t rows, const double *z, const double *matrices,
                                double decay, int64_t dim, int64_t outputs, double *to, double *room) {
    const int64_t columns = dim + outputs;
    for (int64_t n = 0; n < times; n++)
        for (int64_t row = 0; row < rows; row++)
            propagate(z + row * columns, matrices + row * dim * outputs, decay, when[n], dim, outputs,
                      to + (n * rows + row) * columns, room);
}

/* Fill in the rows that ride along arc n, which begins where the rows still are. */
static void fill_in(const Ride *ride, int64_t n, double span, double *states, const Data *data, const Pattern *pattern,
                    const Desk *desk) {
    const int64_t dim = data->dim, outputs = data->outputs, columns = dim + outputs, size = pattern->rows * columns;
    const int64_t block = dim * outputs, all = ride->count * block;
    double *arc = states + n * NODES * size, decays[NODES];
    const double *before = n ? arc - size : arc;
    for (int x = 0; x < NODES; x++) {
        decays[x] = pulls_on_rows(arc + x * size, data, pattern, desk);
        for (int64_t i = 0; i < ride->count; i++)
            memcpy(ride->pulls + x * all + i * block, desk->pull + pattern->owner[ride->riding[i]] * block,
                   sizeof(double) * (size_t)block);
    }
    for (int y = NODES - 1; y >= 0; y--) { /* the first node last */
        double decay = 0.0;
        for (int x = 0; x < NODES; x++) decay += ride->means[y * NODES + x] * decays[x];
        add_up(ride->means + y * NODES, NODES, ride->pulls, all, ride->mean);
        for (int64_t i = 0; i < ride->count; i++)
            propagate(before + ride->riding[i] * columns, ride->mean + i * block, decay,
                      span * TABLES.nodes[y], dim, outputs, arc + y * size + ride->riding[i] * columns,
                      ride->room);
    }
}

/* Whether a row that rides is light no more where an arc ends, or has grown by more than its points follow. */
static int outgrows(const Ride *ride, const double *before, const double *end, const Pattern *pattern, int64_t columns) {
    double squares = 0.0;
    for (int64_t i = 0; i < ride->heavies; i++)
        for (int64_t j = 0; j < columns; j++) {
            const double entry = end[ride->heavy[i] * columns + j];
            squares += entry * entry;
        }
    for (int64_t i = 0; i < ride->count; i++) {
        const double *row = end + ride->riding[i] * columns;
        double square = 0.0;
        if (ride->riding[i] >= pattern->active) continue;
        for (int64_t j = 0; j < columns; j++) square += row[j] * row[j];
        if (!(square <= ride->outgrown * squares)) return 1;
        if (size_of(row, columns) > OVERGROWN * size_of(before + ride->riding[i] * columns, columns)) return 1;
    }
    return 0;
}

/* Whether a heavy row has faded so far that it is made of what rounding leaves. */
static int fades(const Ride *ride, const double *begin, const double *end, int64_t columns) {
    for (int64_t i = 0; i < ride->heavies; i++) {
        const int64_t first = ride->heavy[i] * columns;
        if (size_of(end + first, columns) < FADED * size_of(begin + first, columns)) return 1;
    }
    return 0;
}

/* Fill in the rows that ride at the nodes of arcs, and draw the curves; how many arcs there are before a row that rides
   is light no more, a group comes apart, or a heavy row has faded. Between nodes those that ride are pulled by the mean
   of the pulls up to each. */
int64_t ride_along(const Ride *ride, const Drawn *drawn, const Data *data, const Pattern *pattern, const Desk *desk) {
    const int64_t columns = data->dim + data->outputs, size = pattern->rows * columns;
    for (int64_t n = 0; n < drawn->count; n++) {
        double *arc = drawn->states + n * NODES * size, *end = arc + (NODES - 1) * size;
        if (ride->count) {
            fill_in(ride, n, drawn->ends[n] - (n ? drawn->ends[n - 1] : 0.0), drawn->states, data, pattern, desk);
            keep_balance(ride->own, drawn->ends[n], data, pattern, ride->riding, ride->count, end);
            if (n && has_faded(ride->own, pattern)) return n;
            if (outgrows(ride, n ? arc - size : arc, end, pattern, columns)) return n;
            if (has_parted(end, pattern, columns, ride->parted, ride->squares)) return n;
        }
        if (fades(ride, drawn->states, end, columns)) return n;
        for (int k = 0; k < NODES; k++)
            add_up(TABLES.from_nodes + k * NODES, NODES, arc, size, drawn->curves + (n * NODES + k) * size);
    }
    return drawn->count;
}

/* How long a part of a row that changes by a rate can be seen in it. */
static double seen_for(double square, double rate) { return log(largest(sqrt(fabs(square)) / UNNOTICED, 1.0)) / rate; }

/* Rates by which parts of the rows that ride change at `z`, and until when they can be seen in them: `paces`, (3, 2).

   Of M = UΣVᵀ a row has parts that grow by σ, that fade by σ, and that nothing pulls; all fade by decay. Where a pull
   is no number the first rate is infinite. */
void light_paces(const Ride *ride, const double *z, const Data *data, const Pattern *pattern, const Desk *desk,
                 double *paces) {
    const int64_t dim = data->dim, outputs = data->outputs, columns = dim + outputs, block = dim * outputs;
    const double decay = pulls_on_rows(z, data, pattern, desk);
    double *left = ride->room, *right = ride->room + block, fastest = 0.0;
    memset(paces, 0, sizeof(double) * PACES);
    paces[1] = INFINITY;
    for (int64_t i = 0; i < ride->count; i++) {
        const double *row = z + ride->riding[i] * columns, size = size_of(row, columns);
        double whole = 0.0, strongest = 0.0, fading = 0.0, pulled = 0.0;
        if (!(size > VANISHES)) continue;
        memcpy(left, desk->pull + pattern->owner[ride->riding[i]] * block, sizeof(double) * (size_t)block);
        rotate(left, right, dim, outputs, DUST);
        for (int64_t j = 0; j < columns; j++) whole += (row[j] / size) * (row[j] / size);
        for (int64_t k = 0; k < outputs; k++) {
            double square = 0.0, one = 0.0, other = 0.0;
            for (int64_t j = 0; j < dim; j++) {
                square += left[j * outputs + k] * left[j * outputs + k];
                one += left[j * outputs + k] * (row[j] / size);
            }
            for (int64_t o = 0; o < outputs; o++) other += right[o * outputs + k] * (row[dim + o] / size);
            const double sigma = sqrt(square);
            if (!(sigma < INFINITY)) {
                paces[0] = INFINITY;
                return;
            }
            paces[0] = largest(paces[0], fabs(sigma - decay));
            if (sigma == 0.0) continue;
            strongest = largest(strongest, sigma);
            one /= sigma;
            fading += (one - other) * (one - other);
            pulled += one * one + other * other;
        }
        if (strongest == 0.0) continue;
        fastest = largest(fastest, strongest);
        paces[3] = largest(paces[3], 0.5 * seen_for(fading / whole, strongest));
        paces[5] = largest(paces[5], seen_for(1.0 - pulled / whole, strongest));
    }
    paces[2] = fastest + decay;
    paces[4] = decay;
}

PUBLIC void biasfree_light_paces(const Ride *ride, const double *z, const Data *data, const Pattern *pattern,
                                 const Desk *desk, double *paces) {
    light_paces(ride, z, data, pattern, desk, paces);
}
