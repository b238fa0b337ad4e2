/* What happens along a curve: crossings, ends of slides, a loss level. */

#include "engine.h"

enum { LOW = 8, WIDTH = 9, STACK = 10 }; /* a row of the stack: NODES coefficients, where it begins, how wide it is */

/* Points at which a polynomial's depth is looked for. Chosen: twice as many as it has coefficients, and four vectors of
   four; with fewer a dip between them would seem shallower than it is, more would cost more. */
enum { LOOKS = 16 };
/* Turns of regula falsi. Chosen, against a loop without end: halving alone would take 52 from 1 to ENCLOSED. Were they
   spent, the last point at or above zero would be given. */
enum { FALSI_TURNS = 100 };
#define ENCLOSED 4e-16 /* of an interval, how closely a zero is enclosed: four spacings of float64 below 1 */
/* Times the bound √dim·max|Δw| of what |d·Δw| can be, ‖d‖ = 1: for rounding, which needs far less. Chosen; were it
   below 1, crossings would be missed, were it larger, lines that are out of reach would be looked at. */
#define ROOMY 1.01
/* ln L of a loss of zero, which is −∞: finite, so that a polynomial through it is one. Its coefficients are at most 86
   times larger (the largest row of |from_nodes|, summed up). */
#define LOWEST (-1e300)

typedef struct { double one, other, beyond; } Margins;

/* A polynomial from its Bernstein coefficients: Σ_n C(7, n) c_n xⁿ (1 − x)⁷⁻ⁿ, nested. */
static double value_at(const double *c, double x) {
    const double rest = 1.0 - x;
    double total = c[0], power = 1.0;
    for (int n = 1; n < NODES; n++) {
        power *= x;
        total = total * rest + COUNTS[n] * power * c[n];
    }
    return total;
}

/* Whether the coefficients change sign once, from plus to minus: then there is one zero, no more (Descartes). */
static int changes_once(const double *c) {
    int i = 0;
    while (i < NODES && c[i] >= 0.0) i++;
    while (i < NODES && c[i] <= 0.0) i++;
    return i == NODES;
}

/* The one zero of a polynomial that begins at or above zero and ends below: regula falsi that halves the value at an
   end which stays (the Illinois method), a few times faster than halving the interval. */
static double only_zero(const double *c) {
    double low = 0.0, high = 1.0, above = c[0], below = c[NODES - 1];
    int stayed = 0;
    for (int turn = 0; turn < FALSI_TURNS && high - low > ENCLOSED; turn++) {
        double x = (low * below - high * above) / (below - above);
        if (!(x > low && x < high)) x = 0.5 * (low + high);
        const double value = value_at(c, x);
        if (value >= 0.0) {
            if (value == 0.0) return x;
            low = x;
            above = value;
            if (stayed == 1) below *= 0.5;
            stayed = 1;
        } else {
            high = x;
            below = value;
            if (stayed == -1) above *= 0.5;
            stayed = -1;
        }
    }
    return low;
}

/* The first x from 0 to 1 at which a polynomial goes below zero; NO_TIME if it never does.

   Its eight Bernstein coefficients are in the first row of `stack`. Halves that may go below are looked at from the
   left until one zero is left in one of them, or float64 ends. */
static double first_below(double *stack) {
    int top = 0;
    stack[LOW] = 0.0;
    stack[WIDTH] = 1.0;
    while (top >= 0) {
        double *here = stack + top * STACK, *next = here + STACK;
        const double low = here[LOW], width = here[WIDTH];
        double least = here[0];
        for (int i = 1; i < NODES; i++) least = smallest(least, here[i]);
        if (least >= 0.0) {
            top--;
        } else if (here[0] < 0.0 || top >= DEEPEST || width < TOLD_TIMES * (low + width)) {
            return low;
        } else if (here[0] > 0.0 && here[NODES - 1] < 0.0 && changes_once(here)) {
            return low + width * only_zero(here);
        } else { /* de Casteljau: both halves */
            for (int i = 0; i < NODES; i++) {
                next[i] = here[0];
                for (int j = 0; j < NODES - 1 - i; j++) here[j] = 0.5 * (here[j] + here[j + 1]);
            }
            here[LOW] = low + 0.5 * width;
            here[WIDTH] = 0.5 * width;
            next[LOW] = low;
            next[WIDTH] = 0.5 * width;
            top++;
        }
    }
    return NO_TIME;
}

/* How far below zero a polynomial goes, at some points: its coefficients alone would say far too much. */
FOUR_AT_A_TIME static double depth_of(const double *c) {
    double total[LOOKS], power[LOOKS], least = 0.0;
    for (int i = 0; i < LOOKS; i++) total[i] = c[0], power[i] = 1.0;
    for (int n = 1; n < NODES; n++)
        for (int i = 0; i < LOOKS; i++) {
            const double x = (i + 1) / (double)LOOKS;
            power[i] *= x;
            total[i] = total[i] * (1.0 - x) + COUNTS[n] * power[i] * c[n];
        }
    for (int i = 0; i < LOOKS; i++) least = smallest(least, total[i]);
    return -least;
}

/* Rows beyond a line by `blur` of their size somewhere along a curve, or within their group's radius of it; how
   many. */
static int64_t crossings(const double *curve, double blur, const Data *data, const Pattern *pattern, const Desk *desk,
                         const Sought *sought) {
    const int64_t dim = data->dim, lines = data->lines, columns = dim + data->outputs, size = pattern->rows * columns;
    double *c = desk->stack;
    int64_t count = 0;
    for (int64_t h = 0; h < pattern->active; h++) {
        const double radius = desk->radius[h];
        double extent = 0.0, reach = 0.0;
        for (int64_t j = 0; j < columns; j++) { /* column by column: processors look for several maxima at once */
            const double *entry = curve + h * columns + j;
            double most = fabs(entry[0]), farthest = 0.0;
            for (int n = 1; n < NODES; n++) {
                most = largest(most, fabs(entry[n * size]));
                farthest = largest(farthest, fabs(entry[n * size] - entry[0]));
            }
            extent = largest(extent, most); /* v's too: where w vanishes, rounding does not */
            if (j < dim) reach = largest(reach, farthest);
        }
        if (extent < NOTHING) continue;
        const double depth = blur * extent;
        reach = ROOMY * sqrt((double)dim) * reach - depth + radius;
        for (int64_t line = 0; line < lines; line++) {
            const double sign = pattern->side[h * lines + line];
            double least = INFINITY;
            if (sign == 0.0) continue;
            for (int n = 0; n < NODES; n++) {
                const double *row = curve + n * size + h * columns;
                c[n] = 0.0;
                for (int64_t j = 0; j < dim; j++) c[n] += row[j] * data->transposed[j * lines + line];
                c[n] = sign * c[n] + depth;
                least = smallest(least, c[n]);
                if (n == 0 && least > reach + depth) break;
            }
            const double beyond = least < 0.0 ? depth_of(c) : 0.0;
            double x = least < 0.0 ? first_below(c) : NO_TIME;
            if (x == NO_TIME && radius > 0.0 && least < radius) x = NEAR_BY;
            if (x != NO_TIME && count < sought->room) {
                double *met = sought->met + 4 * count++;
                met[0] = (double)h;
                met[1] = (double)line;
                met[2] = x;
                met[3] = beyond / extent;
            }
        }
    }
    return count;
}

/* All pulls together, and the size that they are differences of: what rounding is a part of. */
static double whole_of(const double *work, const Data *data) {
    double whole = 0.0;
    for (int64_t i = 0; data->lines > 0 && i <= 2 * data->outputs * data->lines; i++) whole += fabs(work[i]);
    return whole;
}

/* Both margins of a slide, where `work` holds what `pulls` left there and `whole` all of it together, and how far it is
   beyond its end.

   A slide on line l has ς s_l = μ with s_l = v·q_l < 0 and μ = −B·ẇ_free. Its margins are −s_l ± μ, both positive while
   |ς| < 1 and the line attracts, plus what ROUNDING of all the pulls may have made of them. */
static Margins margins_of(const double *z, const double *work, double whole, const Data *data, const Pattern *pattern,
                          int64_t which) {
    const int64_t dim = data->dim, lines = data->lines, outputs = data->outputs;
    const int64_t h = pattern->slides[2 * which], held = pattern->slides[2 * which + 1];
    const double *dual = pattern->dual + which * dim, *side = pattern->side + h * lines;
    double strength = 0.0, free = 0.0, extent = 0.0;
    for (int64_t k = 0; k < outputs; k++) {
        const double v = z[h * (dim + outputs) + dim + k], *p = work + k * lines, *q = work + (outputs + k) * lines;
        extent = largest(extent, fabs(v));
        strength += v * q[held];
        for (int64_t line = 0; line < lines; line++) {
            double along = 0.0;
            for (int64_t j = 0; j < dim; j++) along += dual[j] * data->transposed[j * lines + line];
            free += along * v * (p[line] + side[line] * q[line]);
        }
    }
    const double noise = ROUNDING * extent * whole;
    const int judged = extent > NOTHING && whole > 0.0;
    return (Margins){noise - strength - free, noise - strength + free,
                     judged ? largest(0.0, (strength + fabs(free)) / (extent * whole)) : 0.0};
}

/* Whether a slide is over at rows `z`, where `work` holds what `pulls` left there. */
int has_ended(const double *z, const double *work, const Data *data, const Pattern *pattern, int64_t which) {
    const Margins now = margins_of(z, work, whole_of(work, data), data, pattern, which);
    return now.one < 0.0 || now.other < 0.0;
}

/* All functions of time that must stay positive, at one node of a curve. */
static void look_at_node(int n, const double *curve, double begin, double length, const Data *data,
                         const Pattern *pattern, double level, const Desk *desk, const Sought *sought) {
    const int64_t dim = data->dim, columns = dim + data->outputs, size = pattern->rows * columns, slides = pattern->count;
    double *z = desk->rows + PLACE * size, *values = sought->values + n * (3 * slides + 1);
    add_up(TABLES.at_nodes + n * NODES, NODES, curve, size, z);
    if (data->gives) {
        given_pulls(data, data->given_at + data->given_rate * (begin + TABLES.nodes[n] * length), desk->work);
    } else {
        outputs_of(z, data, pattern->side, pattern->active, desk->work);
        const double height = log_loss(desk->work, data);
        values[3 * slides] = (height == height ? largest(height, LOWEST) : height) - level;
        pulls(desk->work, data, data->by_loss ? height : 0.0);
    }
    const double whole = whole_of(desk->work, data);
    for (int64_t i = 0; i < slides; i++) {
        const Margins now = margins_of(z, desk->work, whole, data, pattern, i);
        const int64_t h = pattern->slides[2 * i];
        double total = 0.0; /* v·v_begin */
        for (int64_t k = dim; k < columns; k++) total += z[h * columns + k] * curve[h * columns + k];
        values[3 * i] = now.one;
        values[3 * i + 1] = now.other;
        values[3 * i + 2] = total;
        sought->beyond[n * slides + i] = now.beyond;
    }
}

/* Search a curve for all that can happen along it (_events.py); times begin and length matter to given pulls only.

   Returns how many crossings there are, −1 if nothing happens at all. Crossings that there is no room for are left out:
   ask again with more room if all of it is used. */
int64_t scan(const double *curve, double begin, double length, double blur, const Data *data, const Pattern *pattern,
             double level, const Desk *desk, const Sought *sought) {
    const int64_t slides = pattern->count, functions = 3 * slides + (level > -INFINITY ? 1 : 0);
    double first = NO_TIME;
    for (int64_t i = 0; i <= slides; i++) sought->ended[i] = NO_TIME;
    for (int n = 0; functions > 0 && n < NODES; n++)
        look_at_node(n, curve, begin, length, data, pattern, level, desk, sought);
    for (int64_t i = 0; i < functions; i++) {
        for (int m = 0; m < NODES; m++) {
            desk->stack[m] = 0.0;
            for (int n = 0; n < NODES; n++)
                desk->stack[m] += TABLES.from_nodes[m * NODES + n] * sought->values[n * (3 * slides + 1) + i];
        }
        const double x = first_below(desk->stack);
        sought->ended[i / 3] = smallest(sought->ended[i / 3], x);
        first = smallest(first, x);
    }
    const int64_t count = data->b != 0.0 ? crossings(curve, blur, data, pattern, desk, sought) : 0;
    return count == 0 && first > 1.0 ? -1 : count;
}

PUBLIC int64_t biasfree_scan(const double *curve, double begin, double length, double blur, const Data *data,
                             const Pattern *pattern, double level, const Desk *desk, const Sought *sought) {
    return scan(curve, begin, length, blur, data, pattern, level, desk, sought);
}

/* The first of some curves, (count, 8, rows, columns), along which anything happens; `beyond` is how far a slide is
   beyond its end along those before. */
PUBLIC int64_t biasfree_quiet(int64_t count, const double *curves, double blur, const Data *data, const Pattern *pattern,
                              double level, const Desk *desk, const Sought *sought, double *beyond) {
    const int64_t size = NODES * pattern->rows * (data->dim + data->outputs);
    for (int64_t n = 0; n < count; n++) {
        if (scan(curves + n * size, 0.0, 0.0, blur, data, pattern, level, desk, sought) >= 0) return n;
        for (int64_t i = 0; i < NODES * pattern->count; i++) *beyond = largest(*beyond, sought->beyond[i]);
    }
    return count;
}
