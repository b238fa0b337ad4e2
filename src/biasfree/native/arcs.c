/* The way of an exponential step in arcs, each a curve of degree 7 that events are searched on
   (biasfree/dynamics/exact/_late.py). */

#include "late.h"

/* Part of the tolerance that a curve may be off by between its nodes, and below which a fading direction needs no short
   arcs. Chosen: small beside the step's own error. Were it smaller, there would be more arcs, for what nobody sees. */
#define UNSEEN 0.1
/* Eight of Chebyshev's points of an interval interpolate e^{−xs} to 2(x/4)^8/8! there: bound, of the polynomial that
   vanishes at seven points, near enough for eight with both ends. */
#define SPREAD 4.0
#define PART 20160.0 /* 8!/2 */
/* Of the way to where a step ends anyway. Bound: far above rounding, far below any rtol. */
#define NEARLY (1.0 - 1e-9)

enum { PACES = 3 };

/* For a mode, the part of x(τ) that goes with e^{λτ}, as the largest that it moves of a row in units of the tolerance:
   infinite without tolerances, nothing where it can be told from a polynomial by nobody. */
static double exponential_part(const Way *way, const Modes *modes, int64_t m) {
    const int64_t count = modes->count, seen = modes->seen;
    const double rate = fabs(modes->rates[m]), *shown = modes->shown + m * seen;
    double total = modes->force[m], factor = 1.0, most = seen ? 0.0 : INFINITY;
    if (!(rate * way->length > 1.0)) return 0.0;
    for (int j = 0; j < POINTS; j++) {
        factor *= (double)(j + 1) / (way->length * modes->rates[m]);
        total += factor * way->bend[j * count + m];
    }
    for (int64_t i = 0; i < seen; i++) most = largest(most, fabs(shown[i]) / modes->tolerances[i]);
    return total == 0.0 ? 0.0 : fabs(total) / rate * most;
}

/* How far an arc may go from a time on, so that eight points follow every mode: `parts` of them as above. What was not
   judged is followed as long again as it has been followed for. */
static double reach_of_modes(const Modes *modes, const double *parts, double now, double length) {
    double reach = INFINITY;
    for (int64_t m = 0; m < modes->count; m++) {
        const double rate = modes->rates[m];
        if (parts[m] == 0.0) continue;
        if (parts[m] == INFINITY) {
            reach = smallest(reach, largest(1.0 / fabs(rate), now));
            continue;
        }
        const double left = parts[m] * exp(rate > 0.0 ? rate * length : rate * now);
        if (left > UNSEEN) reach = smallest(reach, SPREAD * pow(UNSEEN * PART / left, 1.0 / NODES) / fabs(rate));
    }
    return reach;
}

/* And so that light rows do not change too much in it. */
static double reach_of_light(const double *paces, double growth, double now) {
    double rate = 0.0;
    for (int i = 0; i < PACES; i++)
        if (now < paces[2 * i + 1]) rate = largest(rate, paces[2 * i]);
    return rate > 0.0 ? growth / rate : INFINITY;
}

/* Ends of arcs, `most` at most, none too long for what can be seen in them; how many there are. `parts` is room for as
   many numbers as there are modes. */
PUBLIC int64_t biasfree_grid(const Way *way, const Modes *modes, const Ride *ride, const double *z, const Data *data,
                             const Pattern *pattern, const Desk *desk, double *parts, int64_t most, double *ends) {
    double paces[2 * PACES] = {0.0}, now = 0.0;
    int64_t count = 0;
    for (int64_t m = 0; m < modes->count; m++) parts[m] = way->curve ? 0.0 : exponential_part(way, modes, m);
    if (ride->count) light_paces(ride, z, data, pattern, desk, paces);
    while (now < way->length && count < most) {
        const double reach = smallest(reach_of_modes(modes, parts, now, way->length),
                                      reach_of_light(paces, way->growth, now));
        now = now + reach < NEARLY * way->length ? now + reach : way->length;
        ends[count++] = now;
    }
    return count;
}

static void on_curve(const double *curve, double x, int64_t count, double *found) {
    double weights[NODES];
    bernstein(x, weights);
    add_up(weights, NODES, curve, count, found);
}

/* How far every mode has moved until a time, and the square of how fast it moves then: F + Jx + Σ(τ/h)^j B_j, or the
   slope of the way itself. */
static double move(double time, const Way *way, const Modes *modes, double *places, double *room) {
    const int64_t count = modes->count;
    const double part = way->length > 0.0 ? time / way->length : 0.0;
    double power = 0.0;
    if (way->curve) {
        on_curve(way->curve, part, count, places);
        on_curve(way->slope, part, count, room);
        for (int64_t m = 0; m < count; m++) power += room[m] * room[m] / (way->length * way->length);
        return power;
    }
    weigh(time, way->length, modes, room);
    place(modes, room, way->bend, places);
    for (int64_t m = 0; m < count; m++) {
        double speed = modes->force[m] + modes->rates[m] * places[m], scale = 1.0;
        for (int j = 0; j < POINTS; j++) {
            scale *= part;
            speed += scale * way->bend[j * count + m];
        }
        power += speed * speed;
    }
    return power;
}

/* Curve of ∫‖Ẇ‖² over an arc from its values at the nodes. */
static void draw_energy(const double *means, const double *powers, double before, double span, double *energies) {
    double inside[NODES];
    for (int y = 0; y < NODES; y++) {
        inside[y] = before;
        for (int x = 0; x < NODES; x++) inside[y] += span * TABLES.nodes[y] * means[y * NODES + x] * powers[x];
    }
    for (int k = 0; k < NODES; k++) {
        energies[k] = 0.0;
        for (int x = 0; x < NODES; x++) energies[k] += TABLES.from_nodes[k * NODES + x] * inside[x];
    }
}

/* The way of all rows and their energy along arcs whose ends are known; how many of them there are (`ride_along`). */
PUBLIC int64_t biasfree_arcs(const Way *way, const Modes *modes, const Ride *ride, const Drawn *drawn, const Data *data,
                             const Pattern *pattern, const Desk *desk) {
    const int64_t columns = data->dim + data->outputs, size = pattern->rows * columns;
    double *places = drawn->room, *shown = places + (1 + 2 * NODES) * modes->count, begin = 0.0;
    for (int64_t n = 0; n < drawn->count; n++) {
        const double span = drawn->ends[n] - begin;
        double powers[NODES];
        for (int x = 0; x < NODES; x++) {
            double *state = drawn->states + (n * NODES + x) * size;
            powers[x] = move(begin + span * TABLES.nodes[x], way, modes, places, places + modes->count);
            add_up(places, modes->count, modes->shown, ride->heavies * columns, shown);
            for (int64_t i = 0; i < ride->heavies; i++)
                for (int64_t j = 0; j < columns; j++) state[ride->heavy[i] * columns + j] += shown[i * columns + j];
        }
        draw_energy(ride->means, powers, n ? drawn->energies[n * NODES - 1] : 0.0, span, drawn->energies + n * NODES);
        begin = drawn->ends[n];
    }
    return ride_along(ride, drawn, data, pattern, desk);
}
