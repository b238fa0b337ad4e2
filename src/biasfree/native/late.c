/* Exponential steps and the rows that ride along: the inner loops of biasfree/dynamics/exact/_late.py, which has the equations. */

#include "engine.h"

enum { POINTS = NODES - 1 };  /* of a step beside its beginning, and degrees of what J leaves of the velocity */
enum { MOST_TERMS = 40, MOST_SWEEPS = 30 }; /* never reached: both converge long before */

#define SERIES 3.0     /* |z| below which φ's formulas cancel, up to 30 times for φ₈ */
#define LARGEST_Z 700.0 /* e^z is no number much beyond */
#define OVERGROWN 1e4  /* growth of a light row over an arc beyond which eight points do not follow it */
#define NEGLIGIBLE 1e-17
#define ORTHOGONAL 1e-15

/* J's modes, and what a step along them is judged by. */
typedef struct {
    const double *modes;      /* (entries, count) */
    const double *by_mode;    /* (count, entries), the same */
    const double *shown;      /* (count, seen): what each mode moves of the neurons' rows */
    const double *tolerances; /* (seen) */
    const double *rates, *force; /* (count) */
    const double *start;      /* (rows, columns); the first of them are J's */
    double noise;
    int64_t count, entries, seen;
} Modes;

/* How the equations are solved: N at the points → B, what of the last B is an error, what may be left, and turns at most. */
typedef struct {
    const double *fit; /* (7, 7) */
    double top, settled;
    int64_t turns;
} Rules;

/* What was found, and room to find it in. */
typedef struct {
    double *bend, *places; /* (7, count) */
    double *weights;       /* (7, 8, count) */
    double *bent;          /* (7, count) */
    double *change;        /* (count) */
    double *moved;         /* (entries) */
    double *shown;         /* (seen) */
    double *stage;         /* (rows, columns) */
    double left, error;
    int64_t evaluations;
} Solved;

/* φ_1, …, φ_last of z: by the recursion upwards, or from a series of the last one downwards where that would cancel. */
static void phis(double z, int64_t last, double *values, int64_t stride) {
    double factorial = 1.0;
    if (fabs(z) >= SERIES) {
        const double y = smallest(z, LARGEST_Z);
        double value = expm1(y) / y;
        for (int64_t k = 1;; k++) {
            values[(k - 1) * stride] = value;
            if (k == last) return;
            factorial *= (double)k;
            value = (value - 1.0 / factorial) / y;
        }
    }
    for (int64_t k = 2; k <= last; k++) factorial *= (double)k;
    double term = 1.0 / factorial, value = term;
    for (int64_t i = 1; i < MOST_TERMS && fabs(term) > NEGLIGIBLE * fabs(value); i++) {
        term *= z / (double)(last + i);
        value += term;
    }
    for (int64_t k = last;; k--) {
        values[(k - 1) * stride] = value;
        if (k == 1) return;
        factorial /= (double)k;
        value = 1.0 / factorial + z * value;
    }
}

PUBLIC void biasfree_phis(int64_t count, const double *z, int64_t last, double *values) {
    for (int64_t i = 0; i < count; i++) phis(z[i], last, values + i, count);
}

/* What the force, and each B_j, move every mode by until `time`: (8, count). */
static void weigh(double time, double length, const Modes *modes, double *weights) {
    double scale = time, factor = 1.0;
    for (int64_t m = 0; m < modes->count; m++) phis(time * modes->rates[m], NODES, weights + m, modes->count);
    for (int j = 0; j < NODES; j++) { /* j! τ(τ/h)^j */
        if (j > 0) {
            factor *= (double)j;
            scale *= length > 0.0 ? time / length : 0.0;
        }
        for (int64_t m = 0; m < modes->count; m++) weights[j * modes->count + m] *= factor * scale;
    }
}

/* How far every mode has moved. */
static void place(const Modes *modes, const double *weights, const double *bend, double *places) {
    const int64_t count = modes->count;
    for (int64_t m = 0; m < count; m++) {
        double total = weights[m] * modes->force[m];
        for (int j = 0; bend && j < POINTS; j++) total += weights[(j + 1) * count + m] * bend[j * count + m];
        places[m] = total;
    }
}

/* How far every mode has moved until some times, (times, count); `weights` is room for (8, count). */
PUBLIC void biasfree_places(int64_t times, const double *when, double length, const Modes *modes, const double *bend,
                            double *weights, double *places) {
    for (int64_t n = 0; n < times; n++) {
        weigh(when[n], length, modes, weights);
        place(modes, weights, bend, places + n * modes->count);
    }
}

/* QᵀN(x + Q·place) − QᵀN(x) at some places, but nothing along modes where all of it may be rounding alone. */
static void bend_at(int64_t states, const double *places, const Modes *modes, const Data *data, const Pattern *pattern,
                    const Desk *desk, double *bent, double *moved, double *stage) {
    const int64_t count = modes->count, size = pattern->rows * (data->dim + data->outputs);
    const Form none = {0, 0, 0};
    double *rows = desk->rows + PLACE * size;
    for (int64_t n = 0; n < states; n++) {
        const double *place = places + n * count;
        double *here = bent + n * count;
        add_up(place, count, modes->by_mode, modes->entries, moved);
        memcpy(rows, modes->start, sizeof(double) * (size_t)size);
        for (int64_t i = 0; i < modes->entries; i++) rows[i] += moved[i];
        velocity(data, pattern, &none, 0.0, desk, stage);
        add_up(stage, modes->entries, modes->modes, count, here);
        for (int64_t m = 0; m < count; m++) here[m] -= modes->force[m] + modes->rates[m] * place[m];
    }
    for (int64_t m = 0; m < count; m++) {
        double most = 0.0;
        for (int64_t n = 0; n < states; n++) {
            const double size_here = fabs(bent[n * count + m]);
            if (!(size_here <= most)) most = size_here; /* NaN stays */
        }
        if (most <= modes->noise)
            for (int64_t n = 0; n < states; n++) bent[n * count + m] = 0.0;
    }
}

PUBLIC void biasfree_bend(int64_t states, const double *places, const Modes *modes, const Data *data,
                          const Pattern *pattern, const Desk *desk, double *bent, double *moved, double *stage) {
    bend_at(states, places, modes, data, pattern, desk, bent, moved, stage);
}

/* The largest of what a change along the modes moves, in units of the tolerance; infinite where it is no number. */
static double judged(const double *change, const Modes *modes, double *shown) {
    double worst = 0.0;
    add_up(change, modes->count, modes->shown, modes->seen, shown);
    for (int64_t i = 0; i < modes->seen; i++) {
        const double size = fabs(shown[i]) / modes->tolerances[i];
        if (!(size < INFINITY)) return INFINITY;
        worst = largest(worst, size);
    }
    return worst;
}

/* Exponential collocation over a length, by iteration: the B_j and what further turns would change (`left`), infinite
   where it does not converge; and the error of what was found. */
PUBLIC void biasfree_collocate(double length, const Modes *modes, const Rules *rules, const Data *data,
                               const Pattern *pattern, const Desk *desk, Solved *solved) {
    const int64_t count = modes->count, last = (POINTS - 1) * count;
    double before = INFINITY;
    solved->left = solved->error = INFINITY;
    for (int n = 0; n < POINTS; n++) {
        double *weights = solved->weights + n * NODES * count;
        weigh(length * TABLES.nodes[n + 1], length, modes, weights);
        place(modes, weights, 0, solved->places + n * count);
    }
    for (int64_t turn = 0; turn < rules->turns && solved->left > rules->settled; turn++) {
        bend_at(POINTS, solved->places, modes, data, pattern, desk, solved->bent, solved->moved, solved->stage);
        solved->evaluations += POINTS;
        for (int j = 0; j < POINTS; j++)
            add_up(rules->fit + j * POINTS, POINTS, solved->bent, count, solved->bend + j * count);
        memcpy(solved->change, solved->places + last, sizeof(double) * (size_t)count);
        for (int n = 0; n < POINTS; n++)
            place(modes, solved->weights + n * NODES * count, solved->bend, solved->places + n * count);
        for (int64_t m = 0; m < count; m++) solved->change[m] = solved->places[last + m] - solved->change[m];
        const double now = judged(solved->change, modes, solved->shown), ratio = now / before;
        solved->left = INFINITY;
        if (!(ratio < 1.0)) return;
        solved->left = turn > 0 ? now * ratio / (1.0 - ratio) : now; /* what all further turns will change */
        before = now;
    }
    const double *force = solved->weights + (POINTS - 1) * NODES * count;
    for (int64_t m = 0; m < count; m++)
        solved->change[m] = force[m] * rules->top * solved->bend[last + m];
    solved->error = judged(solved->change, modes, solved->shown);
}

/* M = UΣVᵀ by Jacobi's rotations of M's columns: left is UΣ, (dim, outputs), right is V. */
static void rotate(double *left, double *right, int64_t dim, int64_t outputs) {
    memset(right, 0, sizeof(double) * (size_t)(outputs * outputs));
    for (int64_t k = 0; k < outputs; k++) right[k * outputs + k] = 1.0;
    for (int sweep = 0, turned = 1; turned && sweep < MOST_SWEEPS; sweep++) {
        turned = 0;
        for (int64_t p = 0; p < outputs; p++)
            for (int64_t q = p + 1; q < outputs; q++) {
                double one = 0.0, other = 0.0, both = 0.0;
                for (int64_t j = 0; j < dim; j++) {
                    const double a = left[j * outputs + p], b = left[j * outputs + q];
                    one += a * a;
                    other += b * b;
                    both += a * b;
                }
                if (!(fabs(both) > ORTHOGONAL * sqrt(one) * sqrt(other))) continue;
                turned = 1;
                const double tau = (other - one) / (2.0 * both);
                const double t = (tau < 0.0 ? -1.0 : 1.0) / (fabs(tau) + sqrt(1.0 + tau * tau));
                const double c = 1.0 / sqrt(1.0 + t * t), s = c * t;
                for (int64_t j = 0; j < dim + outputs; j++) {
                    double *row = j < dim ? left + j * outputs : right + (j - dim) * outputs;
                    const double a = row[p], b = row[q];
                    row[p] = c * a - s * b;
                    row[q] = s * a + c * b;
                }
            }
    }
}

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
    rotate(left, right, dim, outputs);
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

/* Rows that ride along a way, and room: pulls at the nodes and their means, (8, riding, dim, outputs) each. */
typedef struct {
    const int64_t *riding;       /* (count) */
    const double *spans, *bound; /* (arcs): of time, and squares at which a row is light no more */
    const double *means;         /* (8, 8): values at the nodes → means up to each */
    double *pulls, *mean, *room;
    Own *own; /* or nothing */
    int64_t arcs, count;
} Ride;

static double size_of(const double *row, int64_t columns) {
    double size = 0.0;
    for (int64_t j = 0; j < columns; j++) size = largest(size, fabs(row[j]));
    return size;
}

/* Fill in the rows that ride, `states` (arcs, 8, rows, columns); how many arcs there are before one of them is light no
   more. Between nodes they are pulled by the mean of the pulls up to each. */
PUBLIC int64_t biasfree_ride(const Ride *ride, double *states, const Data *data, const Pattern *pattern, const Desk *desk) {
    const int64_t dim = data->dim, outputs = data->outputs, columns = dim + outputs, size = pattern->rows * columns;
    const int64_t block = dim * outputs, all = ride->count * block;
    double time = 0.0;
    for (int64_t n = 0; n < ride->arcs; n++) {
        double *arc = states + n * NODES * size, decays[NODES];
        const double *before = n ? arc - size : arc;
        for (int x = 0; x < NODES; x++) {
            decays[x] = pulls_on_rows(arc + x * size, data, pattern, desk);
            for (int64_t i = 0; i < ride->count; i++)
                memcpy(ride->pulls + x * all + i * block, desk->pull + pattern->owner[ride->riding[i]] * block,
                       sizeof(double) * (size_t)block);
        }
        for (int y = NODES - 1; y >= 0; y--) { /* the first node last: the arc begins where the rows still are */
            double decay = 0.0;
            for (int x = 0; x < NODES; x++) decay += ride->means[y * NODES + x] * decays[x];
            add_up(ride->means + y * NODES, NODES, ride->pulls, all, ride->mean);
            for (int64_t i = 0; i < ride->count; i++)
                propagate(before + ride->riding[i] * columns, ride->mean + i * block, decay,
                          ride->spans[n] * TABLES.nodes[y], dim, outputs, arc + y * size + ride->riding[i] * columns,
                          ride->room);
        }
        time += ride->spans[n];
        keep_balance(ride->own, time, data, pattern, ride->riding, ride->count, arc + (NODES - 1) * size);
        if (n && has_faded(ride->own, pattern)) return n;
        for (int64_t i = 0; i < ride->count; i++) {
            const double *row = arc + (NODES - 1) * size + ride->riding[i] * columns;
            double square = 0.0;
            if (ride->riding[i] >= pattern->active) continue;
            for (int64_t j = 0; j < columns; j++) square += row[j] * row[j];
            if (!(square <= ride->bound[n])) return n;
            if (size_of(row, columns) > OVERGROWN * size_of(before + ride->riding[i] * columns, columns)) return n;
        }
    }
    return ride->arcs;
}
