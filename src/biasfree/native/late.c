/* Exponential steps: the inner loops of biasfree/dynamics/exact/_modes.py and _late.py, which has the equations. */

#include "late.h"

enum { MOST_TERMS = 40 };     /* never reached: up to |z| = SERIES 29 are enough for φ₁, 23 for φ₈ */

/* |z| below which φ's formulas cancel: beside exact fractions φ₈ by the recursion is off by up to 50 times 2.2e-16 from
   3 on, 470 times from 2 on, 16 times from 4 on. With more the series would take more terms. */
#define SERIES 3.0
#define LARGEST_Z 700.0  /* e^z is no number from 709.8 on, and is divided by z only afterwards */
#define NEGLIGIBLE 1e-17 /* a term of this part of a sum changes nothing: half of float64's spacing is 5e-17 at least */


/* What eigenvectors of J are of, and what is made of them. */
typedef struct {
    const double *by_mode;  /* (count, entries): eigenvectors, one in a row; entries are (leads + fades, columns) */
    const double *velocity; /* (entries) */
    const double *turn;     /* (heavy, leads): the neurons' rows from those that stand for them; nothing: the same */
    const double *basis;    /* (dim, columns - outputs), or nothing: w's coordinates (_narrow.py) */
    const double *beside;   /* (heavy, dim): what the last row of J stands for, if it fades */
    double *modes;          /* (entries, count) */
    double *shown;          /* (count, heavy, dim + outputs): what each mode moves of the neurons' rows */
    double *rates, *force;  /* (count) */
    double flat, noise;     /* parts of the fastest rate, and forces, that rounding makes of zero */
    int64_t count, leads, fades, columns, heavy, dim, outputs;
} Turned;

/* How the equations are solved: N at the points → B, what of the last B is an error, what may be left, and turns at
   most. */
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
void weigh(double time, double length, const Modes *modes, double *weights) {
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
void place(const Modes *modes, const double *weights, const double *bend, double *places) {
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

/* What a mode moves of one of the neurons' rows, from what it moves of those that stand for them. */
static void show(const Turned *turned, const double *moved, int64_t h, double *own, double *row) {
    const int64_t columns = turned->columns, narrow = columns - turned->outputs;
    const double *one = moved + h * columns;
    if (turned->turn) {
        memset(own, 0, sizeof(double) * (size_t)columns);
        for (int64_t k = 0; k < turned->leads; k++) {
            const double part = turned->turn[h * turned->leads + k];
            if (part == 0.0) continue; /* of another cell */
            for (int64_t j = 0; j < columns; j++) own[j] += part * moved[k * columns + j];
        }
        one = own;
    }
    memcpy(row + turned->dim, one + narrow, sizeof(double) * (size_t)turned->outputs);
    if (!turned->basis) {
        memcpy(row, one, sizeof(double) * (size_t)narrow);
        return;
    }
    const double faded = turned->fades ? moved[turned->leads * columns + narrow - 1] : 0.0;
    for (int64_t i = 0; i < turned->dim; i++) {
        row[i] = faded * turned->beside[h * turned->dim + i];
        for (int64_t j = 0; j < narrow; j++) row[i] += one[j] * turned->basis[i * narrow + j];
    }
}

/* Modes from eigenvectors and rates: entry by entry, as the neurons' rows show them, and the force along each. Rates and
   forces that rounding makes of zero are put to zero; `room` is for a row. */
PUBLIC void biasfree_modes(const Turned *turned, double *room) {
    const int64_t count = turned->count, entries = (turned->leads + turned->fades) * turned->columns;
    const int64_t wide = turned->dim + turned->outputs;
    double fastest = 0.0;
    for (int64_t m = 0; m < count; m++) fastest = largest(fastest, fabs(turned->rates[m]));
    for (int64_t m = 0; m < count; m++) {
        const double *moved = turned->by_mode + m * entries;
        double force = 0.0;
        if (fabs(turned->rates[m]) <= turned->flat * fastest) turned->rates[m] = 0.0;
        for (int64_t i = 0; i < entries; i++) {
            turned->modes[i * count + m] = moved[i];
            force += moved[i] * turned->velocity[i];
        }
        turned->force[m] = fabs(force) <= turned->noise ? 0.0 : force;
        for (int64_t h = 0; h < turned->heavy; h++)
            show(turned, moved, h, room, turned->shown + (m * turned->heavy + h) * wide);
    }
}
