/* One trial step of a Runge-Kutta method, with its error and its curve.

   A curve is a step's dense output as Bernstein coefficients of degree 7 in x from 0 to 1, shape (8, rows, columns). A
   polynomial lies within the range of these coefficients, and halving the interval brings them closer to it, so that a
   search for its first zero (search.c) can miss nothing, however short a dip may be. */

#include "engine.h"

/* The energy is a sum over all steps: one of them may spend so much of the tolerance. Chosen: a hundred that err to one
   side spend all. Were it smaller, the energy would make steps short that the rows do not need. */
#define ENERGY 0.01
/* Of the largest row: places whose difference is more than rounding. Chosen: 45 times float64's, 2.2e-16, for the sum
   over stages. Were it smaller, rounding would be taken for a fast rate. */
#define TOLD_APART 1e-14

static const double *table_a(const Method *method, int64_t s) {
    return TABLES.a + (method->number * STAGES + s) * STAGES;
}
static const double *table_errors(const Method *method, int64_t n) {
    return TABLES.errors + (method->number * 3 + n) * STAGES;
}
static const double *table_dense(const Method *method, int64_t k) {
    return TABLES.dense + (method->number * NODES + k) * STAGES;
}

/* An error of two estimates, as Dormand and Prince combine theirs. */
static double combined(double high, double low) {
    const double ratio = LOWER * low / high;
    return high / sqrt(1.0 + ratio * ratio);
}

/* Σ_n weight_n stage_n, sixteen entries at a time: four vectors of four, whose sums stay in registers. */
FOUR_AT_A_TIME void add_up(const double *weights, int64_t count, const double *stages, int64_t size, double *total) {
    const Four none = {0.0, 0.0, 0.0, 0.0};
    int64_t first = 0;
    for (; first + 16 <= size; first += 16) {
        Four sums[4] = {none, none, none, none};
        for (int64_t n = 0; n < count; n++) {
            const Four *stage = (const Four *)(stages + n * size + first);
            if (weights[n] == 0.0) continue;
            for (int i = 0; i < 4; i++) sums[i] += weights[n] * stage[i];
        }
        for (int i = 0; i < 4; i++) ((Four *)(total + first))[i] = sums[i];
    }
    for (; first + 4 <= size; first += 4) {
        Four sum = none;
        for (int64_t n = 0; n < count; n++)
            if (weights[n] != 0.0) sum += weights[n] * *(const Four *)(stages + n * size + first);
        *(Four *)(total + first) = sum;
    }
    for (int64_t i = first; i < size; i++) {
        double sum = 0.0;
        for (int64_t n = 0; n < count; n++)
            if (weights[n] != 0.0) sum += weights[n] * stages[n * size + i];
        total[i] = sum;
    }
}

/* The largest error of a row, and of the energy, in units of its tolerance.

   Sizes are largest entries, not sums of squares: those of rows of 1e-200 would be no numbers. */
static double error_of(const Desk *desk, const Trial *trial, double step, double energy, const Limits *limits,
                       const Method *method, int64_t active, int64_t size, int64_t columns) {
    const double *weights[2] = {table_errors(method, 0), table_errors(method, 1)};
    const double *start = desk->rows + START * size, *end = desk->rows + PLACE * size;
    double *one = desk->rows + ERROR * size, *other = desk->rows + OTHER * size, worst = 0.0, powers[2] = {0.0, 0.0};
    add_up(weights[0], method->core, trial->stages, size, one);
    add_up(weights[1], method->core, trial->stages, size, other);
    for (int64_t row = 0; row < active; row++) {
        double high = 0.0, low = 0.0, extent = 0.0;
        for (int64_t entry = row * columns; entry < (row + 1) * columns; entry++) {
            if (one[entry] != one[entry] || other[entry] != other[entry]) return INFINITY;
            high = largest(high, fabs(one[entry]));
            low = largest(low, fabs(other[entry]));
            extent = largest(extent, largest(fabs(start[entry]), fabs(end[entry])));
        }
        if (high == 0.0) continue;
        const double tolerance = limits->atol + limits->rtol * extent;
        if (!(tolerance > 0.0)) return INFINITY;
        worst = largest(worst, step * combined(high, low) / tolerance);
    }
    for (int n = 0; n < 2; n++)
        for (int64_t s = 0; s < method->core; s++) powers[n] += weights[n][s] * trial->powers[s];
    if (powers[0] != powers[0] || powers[1] != powers[1]) return INFINITY;
    if (powers[0] == 0.0) return worst;
    const double tolerance = ENERGY * limits->rtol * largest(limits->energy, energy);
    if (!(tolerance > 0.0)) return INFINITY;
    return largest(worst, step * combined(fabs(powers[0]), fabs(powers[1])) / tolerance);
}

/* Step × fastest rate, from the last two estimates at the step's end; 0 if rounding is all they differ by. */
static double stiffness_of(const double *rows, const Trial *trial, double step, const Method *method, int64_t active,
                           int64_t size, int64_t columns) {
    const double *last = trial->stages + (method->core - 1) * size, *before = last - size;
    double speeds = 0.0, places = 0.0, extent = 0.0;
    for (int64_t i = 0; i < active * columns; i++) {
        extent = largest(extent, fabs(rows[PLACE * size + i]));
        speeds = largest(speeds, fabs(last[i] - before[i]));
        places = largest(places, fabs(rows[PLACE * size + i] - rows[BEFORE * size + i]));
    }
    return places > TOLD_APART * extent ? step * speeds / places : 0.0;
}

/* The largest error of a row's curve, in units of what it may be. */
static double curve_error(const Desk *desk, const double *curve, const Trial *trial, double step, const Limits *limits,
                          const Method *method, const Pattern *pattern, const double *share, int64_t size,
                          int64_t columns) {
    const double *begin = desk->rows + START * size, *end = curve + (NODES - 1) * size;
    double *error = desk->rows + ERROR * size, worst = 0.0;
    add_up(table_errors(method, 2), method->stages, trial->stages, size, error);
    for (int64_t row = 0; row < pattern->rows; row++) {
        double off = 0.0, extent = 0.0, own = 0.0;
        for (int64_t j = 0; j < columns; j++) {
            const int64_t entry = row * columns + j, leader = pattern->owner[row] * columns + j;
            if (error[entry] != error[entry]) return INFINITY;
            off = largest(off, fabs(error[entry]));
            extent = largest(extent, largest(fabs(begin[entry]), fabs(end[entry])));
            own = largest(own, largest(fabs(begin[leader]), fabs(end[leader])));
        }
        if (row >= pattern->active) extent = largest(extent, own / share[row - pattern->active]);
        if (off > 0.0) worst = largest(worst, step * off / (CURVE * (limits->atol + limits->rtol * extent)));
    }
    return worst;
}

/* The place of stage s. */
static void place_stage(int64_t s, double step, const Method *method, const Trial *trial, const Desk *desk,
                        int64_t size) {
    const double *a = table_a(method, s), *z = desk->rows + START * size;
    double *place = desk->rows + PLACE * size;
    if (s == method->core - 1) memcpy(desk->rows + BEFORE * size, place, sizeof(double) * (size_t)size);
    add_up(a, s, trial->stages, size, place); /* the sum first, so that small steps are not lost in rounding */
    for (int64_t i = 0; i < size; i++) place[i] = z[i] + step * place[i];
}

static void draw_curve(int64_t n, double step, double energy, const Method *method, const Trial *trial,
                       const Desk *desk, int64_t size) {
    const double *z = desk->rows + START * size;
    for (int64_t k = 0; k < NODES; k++) {
        const double *dense = table_dense(method, k);
        double *curve = trial->curves + (n * NODES + k) * size, total = 0.0;
        for (int64_t s = 0; s < method->stages; s++) total += dense[s] * trial->powers[s];
        trial->energies[n * NODES + k] = energy + step * total;
        add_up(dense, method->stages, trial->stages, size, curve);
        for (int64_t i = 0; i < size; i++) curve[i] = z[i] + step * curve[i];
    }
}

/* Step n from the desk's start, beginning with its `first` stage: 1 if the velocity there is known, else 0.

   Judges the error in units of the tolerance, and step × fastest rate, as two estimates at the step's end show it. The
   curve is filled only where the error is at most 1. Of a step of length 0 only the velocity is found. */
Judged attempt(int64_t n, int64_t first, double time, double step, double energy, const Data *data,
               const Pattern *pattern, const Form *form, const Limits *limits, const Method *method,
               const double *share, const Trial *trial, const Desk *desk) {
    const int64_t columns = data->dim + data->outputs, size = pattern->rows * columns;
    const double *times = TABLES.times + method->number * STAGES;
    Judged judged = {INFINITY, 0.0};
    for (int64_t s = first; s <= method->stages; s++) {
        if (s == method->core) {
            const double *ends = table_dense(method, NODES - 1);
            double gained = 0.0;
            for (int64_t i = 0; i < method->core; i++) gained += step * ends[i] * trial->powers[i];
            judged.error =
                error_of(desk, trial, step, energy + gained, limits, method, pattern->active, size, columns);
            judged.stiffness = stiffness_of(desk->rows, trial, step, method, pattern->active, size, columns);
            if (!(judged.error <= 1.0)) return judged;
        }
        if (s == method->stages || (s == 1 && step == 0.0)) break;
        place_stage(s, step, method, trial, desk, size);
        trial->powers[s] = velocity(data, pattern, form, time + times[s] * step, desk, trial->stages + s * size);
    }
    if (!(judged.error <= 1.0)) return judged;
    draw_curve(n, step, energy, method, trial, desk, size);
    const double *curve = trial->curves + n * NODES * size;
    judged.error = largest(judged.error, curve_error(desk, curve, trial, step, limits, method, pattern, share, size,
                                                     columns));
    return judged;
}

PUBLIC void biasfree_attempt(int64_t n, int64_t first, double time, double step, double energy, const Data *data,
                             const Pattern *pattern, const Form *form, const Limits *limits, const Method *method,
                             const double *share, const Trial *trial, const Desk *desk, Judged *judged) {
    *judged = attempt(n, first, time, step, energy, data, pattern, form, limits, method, share, trial, desk);
}
