/* What happens first in a step, of what is real and felt, and whether it is plain.

   The rules are those of biasfree/dynamics/exact: _events.py (what is real), _alone.py (what is felt), _carried.py
   (groups). */

#include "travel.h"

/* Part of a step within which a row meets several lines at once. Chosen: above rounding, as BLUR is. Were it smaller,
   lines that meet in a point would be taken one by one, in an order that rounding makes; were it larger, separate
   crossings would be left to Python. */
#define TOGETHER 1e-12
/* Part of a step that a group may take to cross a line. Chosen: were it larger, groups would go as one where some of
   their neurons are held and others not; were it smaller, they would be parted more often. */
#define SOON 0.05
/* Part of a group's largest angle that lines may drive its neurons apart. Chosen, in the same way. */
#define BEARS 0.1
/* Crossings of one curve that are asked whether they are real. Chosen: each question costs the pulls of all lines;
   those that are not asked are taken as real and decided one by one. */
#define SHALLOW 64
#define NOT_REAL 9.0 /* a mark as NO_TIME is: the time of a crossing that only the curve's error has made */
/* Part of a step to which the end of a slide is halved. Chosen: 90 spacings of float64 below 1, reached in 47 halvings;
   below one spacing, 1.1e-16, it would never be reached. */
#define HALVED 1e-14
/* Times NO_V, |v|/|w| from which v is there. Chosen: with 1 no end is both this and one at which v vanishes
   (`has_turned`); with more, ends between the two are left to Python. */
#define CLEARLY 4.0

/* Rows and energy at x of step n, to the desk's start. */
double cut(int64_t n, double x, const Room *room) {
    const int64_t size = room->pattern->rows * (room->data->dim + room->data->outputs);
    const double *curve = room->trial->curves + n * NODES * size;
    double weights[NODES], energy = 0.0, *start = room->desk->rows + START * size;
    bernstein(x, weights);
    for (int k = 0; k < NODES && room->trial->energies; k++)
        energy += weights[k] * room->trial->energies[n * NODES + k];
    add_up(weights, NODES, curve, size, start);
    return energy;
}

static void pulls_within(const Room *room, int64_t n, double x) {
    cut(n, x, room);
    pulls_at(room, room->begin + x * room->length);
}

/* Whether a slide is over at x of step n: its line no longer holds the row, or v has turned. */
static int is_over(const Room *room, int64_t n, double x, int64_t which) {
    const Data *data = room->data;
    const int64_t dim = data->dim, columns = dim + data->outputs, h = room->pattern->slides[2 * which];
    const int64_t size = room->pattern->rows * columns;
    const double *start = room->desk->rows + START * size, *z = start + h * columns;
    pulls_within(room, n, x);
    if (dot(z + dim, room->trial->curves + n * NODES * size + h * columns + dim, data->outputs) < 0.0) return 1;
    return has_ended(start, room->desk->work, data, room->pattern, which);
}

/* When a slide ends, from the first zero of its interpolated margins. Over a step that is long beside the fastest rates
   these may be off: then it ends before the first node where a margin is below zero, or not at all (NO_TIME). */
static double end_of(const Room *room, int64_t n, int64_t which) {
    const int64_t slides = room->pattern->count;
    double low = room->sought->ended[which], high = NO_TIME;
    if (low > 1.0 || is_over(room, n, low, which)) return low;
    for (int k = NODES - 1; k >= 0 && TABLES.nodes[k] > low; k--) {
        const double *values = room->sought->values + k * (3 * slides + 1) + 3 * which;
        if (values[0] < 0.0 || values[1] < 0.0 || values[2] < 0.0) high = TABLES.nodes[k];
    }
    if (high > 1.0 || !is_over(room, n, high, which)) return NO_TIME;
    while (high - low > HALVED) {
        const double middle = 0.5 * (low + high);
        if (is_over(room, n, middle, which))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Whether what a slide ends by, where the desk starts, is plain: v is there, w is, and the line attracts. */
int plain_end(const Room *room, double time, int64_t which) {
    const Data *data = room->data;
    const int64_t dim = data->dim, columns = dim + data->outputs, h = room->pattern->slides[2 * which];
    if (room->pattern->span[h] != 1 || dim < 2) return 0;
    const double *start = room->desk->rows + START * room->pattern->rows * columns, *z = start + h * columns;
    double first = 0.0, second = 0.0;
    for (int64_t j = 0; j < dim; j++) first = largest(first, fabs(z[j]));
    for (int64_t k = dim; k < columns; k++) second = largest(second, fabs(z[k]));
    if (!(first > 0.0) || !(second > CLEARLY * NO_V * first * sqrt((double)dim))) return 0;
    pulls_at(room, time);
    return pulled_across(room, z + dim, h, room->pattern->slides[2 * which + 1]).strength < 0.0;
}

/* Whether a crossing is more than what a curve's own error makes: the velocity there leads across, or it is far beyond
   the line, at the step's end or anywhere. A step's end is within the tolerance, its curve within CURVE times it. */
static int is_real(const Room *room, int64_t n, const double *met, double slack) {
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs, h = (int64_t)met[0], line = (int64_t)met[1];
    const double *end = room->trial->curves + (n * NODES + NODES - 1) * room->pattern->rows * columns + h * columns;
    double extent = 0.0;
    for (int64_t j = 0; j < columns; j++) extent = largest(extent, fabs(end[j]));
    if (met[3] > CURVE * slack) return 1;
    if (room->pattern->side[h * data->lines + line] * along(data, end, line) < -slack * extent) return 1;
    const double *start = room->desk->rows + START * room->pattern->rows * columns, *z = start + h * columns;
    double *moving = room->desk->pull;
    pulls_within(room, n, met[2]);
    pull_of(room, z, h, moving);
    const double side = room->pattern->side[h * data->lines + line];
    return side * along(data, moving, line) < -pulled_across(room, z + data->dim, h, line).noise;
}

/* Whether a group that comes near a line stays together: it is over soon, or does little. The strain of all is added
   up.

   Neurons of a group cross one after the other, within the time 2·radius/|d·ẇ|. Where that is long beside the usual
   step, some may cross and others never, and the line drives them apart by up to its kick. */
static int holds(const Room *room, const Course *course, int64_t crossings) {
    const Data *data = room->data;
    const Pattern *pattern = room->pattern;
    const int64_t dim = data->dim, outputs = data->outputs, columns = dim + outputs, lines = data->lines;
    const double pace = course->pace.long_step;
    double *start = room->desk->rows + START * pattern->rows * columns, *moving = room->desk->pull;
    int whole = 1, known = 0;
    for (int64_t i = 0; i < crossings; i++) {
        const double *met = room->sought->met + 4 * i;
        const int64_t h = (int64_t)met[0], line = (int64_t)met[1];
        const double *z = start + h * columns;
        double radius = 0.0, extent = 0.0, kick = 0.0;
        if (room->desk->radius[h] == 0.0 || met[2] == NOT_REAL) continue;
        if (!known) pulls_here(start, data, pattern, room->desk->work);
        known = 1;
        for (int64_t row = pattern->active; row < pattern->rows; row++)
            if (pattern->owner[row] == h)
                radius += room->apart->spread[row - pattern->active] *
                          sqrt(dot(start + row * columns, start + row * columns, dim));
        for (int64_t j = 0; j < dim; j++) extent = largest(extent, fabs(z[j]));
        for (int64_t k = 0; k < outputs; k++) kick += z[dim + k] * room->desk->work[(outputs + k) * lines + line];
        kick = 2.0 * fabs(kick);
        pull_of(room, z, h, moving);
        double speed = 0.0;
        for (int64_t j = 0; j < dim; j++) speed = largest(speed, fabs(moving[j]));
        if (speed * pace <= BLUR * extent) continue; /* dead neurons stay on the line they have crossed last */
        const double side = pattern->side[h * lines + line], speed_across = along(data, moving, line);
        double differ = 0.0;
        for (int64_t row = pattern->active; row < pattern->rows; row++) {
            if (pattern->owner[row] != h) continue;
            pull_of(room, start + row * columns, h, moving);
            differ += room->apart->spread[row - pattern->active] * fabs(along(data, moving, line));
        }
        /* What has just crossed, and moves on with all its neurons, has all been added to its differences already
           (_parting.py). */
        if (met[2] > 1.0 && side * speed_across > differ && side * along(data, z, line) <= radius) continue;
        const double lasts = 2.0 * radius / fabs(speed_across);
        if (lasts <= SOON * pace && kick * lasts * lasts <= SOON * course->rtol * extent * pace) continue;
        room->record->strain[h] += kick * pace / extent;
        whole = whole && room->record->strain[h] <= BEARS * course->angle;
    }
    return whole;
}

/* How much the pull of a line changes with its output; for losses that are not square, at most about that. */
static double curvature(const Room *room, int64_t line, double whole) {
    const Data *data = room->data;
    double farthest = 0.0;
    if (data->loss == SQUARE) return data->powers[line] / data->samples;
    for (int64_t i = 0; i < data->begin[data->lines]; i++) farthest = largest(farthest, fabs(data->position[i]));
    return whole * farthest;
}

/* Rows that meet nothing but lines whose kicks they do not feel, and whose new sides nobody feels: their `moved`, the
   first half of the record's scratch, is made negative.

   Beyond a line the output there differs from what the step has seen by 2b v|wᵀd|, and the pulls by that times the
   curvature: all rows move by a part of themselves of that order, over what is left of the step. */
static void find_unfelt(const Room *room, int64_t n, double length, int64_t crossings, const Limits *limits) {
    const Data *data = room->data;
    const Pattern *pattern = room->pattern;
    const int64_t dim = data->dim, outputs = data->outputs, columns = dim + outputs, lines = data->lines;
    const int64_t size = pattern->rows * columns;
    double *moved = room->record->scratch, *seen = moved + pattern->active, *q = seen + pattern->active;
    const double *begin = room->trial->curves + n * NODES * size, *end = begin + (NODES - 1) * size;
    double whole = 0.0, spent = 0.0;
    memset(moved, 0, sizeof(double) * (size_t)(2 * pattern->active));
    pulls_here(begin, data, pattern, room->desk->work);
    for (int64_t i = 0; i < 2 * outputs * lines; i++) whole += fabs(room->desk->work[i]);
    for (int64_t i = 0; i < outputs * lines; i++) q[i] = fabs(room->desk->work[outputs * lines + i]);
    pulls_here(end, data, pattern, room->desk->work);
    for (int64_t i = 0; i < outputs * lines; i++) q[i] = largest(q[i], fabs(room->desk->work[outputs * lines + i]));
    for (int64_t i = 0; i < crossings; i++) {
        const double *met = room->sought->met + 4 * i;
        const int64_t h = (int64_t)met[0], line = (int64_t)met[1];
        const double *z = end + h * columns, left = met[2] < 1.0 ? (1.0 - met[2]) * length : 0.0;
        double kick = 0.0, second = 0.0;
        for (int64_t k = 0; k < outputs; k++) {
            kick += fabs(z[dim + k]) * q[k * lines + line];
            second = largest(second, fabs(z[dim + k]));
        }
        moved[h] += 2.0 * kick * left;
        seen[h] += 0.5 * curvature(room, line, whole) * 2.0 * data->b * second * fabs(along(data, z, line)) * left;
    }
    for (int64_t i = 0; i < pattern->count; i++)
        if (room->sought->ended[i] <= 1.0) moved[pattern->slides[2 * i]] = INFINITY;
    for (;;) { /* the lightest first, as long as all of them together are not felt */
        int64_t next = -1;
        for (int64_t i = 0; i < crossings; i++) {
            const int64_t h = (int64_t)room->sought->met[4 * i];
            double extent = 0.0;
            if (moved[h] < 0.0 || room->sought->met[4 * i + 2] > 1.0) continue;
            for (int64_t j = 0; j < columns; j++) extent = largest(extent, fabs(end[h * columns + j]));
            if (moved[h] <= UNFELT * (limits->atol + limits->rtol * extent) && (next < 0 || seen[h] < seen[next]))
                next = h;
        }
        if (next < 0 || spent + seen[next] > UNFELT * limits->rtol) return;
        spent += seen[next];
        moved[next] = -1.0;
    }
}

/* Crossings that a curve's own error makes are none, and slides end when they do. */
void leave_out(const Room *room, int64_t n, int64_t crossings, double slack) {
    const Sought *sought = room->sought;
    for (int64_t i = 0; i < crossings; i++) {
        double *met = sought->met + 4 * i;
        if (met[2] <= 1.0 && !is_real(room, n, met, slack)) met[2] = NOT_REAL;
    }
    for (int64_t i = 0; i < room->pattern->count; i++) sought->ended[i] = end_of(room, n, i);
}

/* Whether what follows is plain where row h meets a line. Slides on all but one dimension leave w a single ray, which
   meets other lines at w = 0 only. */
static int plain_meeting(const Room *room, int64_t h) {
    const int64_t dim = room->data->dim, span = room->pattern->span[h];
    if (dim > 1 && span == dim - 1) return TO_ZERO;
    return dim > 1 && span == 0;
}

/* What happens first in step n, of what is felt; x = NO_TIME if nothing does. The desk's start is used up. */
Event earliest(const Room *room, int64_t n, int64_t crossings) {
    const Pattern *pattern = room->pattern;
    const Sought *sought = room->sought;
    const Event other = {0.0, -1, -1, 0};
    Event event = {NO_TIME, -1, -1, 1};
    for (int64_t i = 0; i < crossings; i++) {
        const double *met = sought->met + 4 * i;
        const int64_t h = (int64_t)met[0];
        if (met[2] > 1.0 || met[2] > event.x + TOGETHER || room->record->scratch[h] < 0.0) continue;
        if (event.x <= 1.0 && h == event.row && fabs(met[2] - event.x) <= TOGETHER)
            event.plain = event.plain == TO_ZERO ? TO_ZERO : 0; /* several lines at once */
        else if (met[2] < event.x)
            event = (Event){met[2], h, (int64_t)met[1], plain_meeting(room, h)};
    }
    for (int64_t i = 0; i < pattern->count; i++)
        if (sought->ended[i] <= smallest(1.0, event.x)) event = (Event){sought->ended[i], i, -1, 1};
    if (sought->ended[pattern->count] <= smallest(1.0, event.x)) return other; /* the loss level */
    if (event.x <= 1.0 && event.line < 0) {
        cut(n, event.x, room);
        event.plain = plain_end(room, room->begin + event.x * room->length, event.row);
        if (!event.plain && has_turned(room, event.row)) event.plain = V_TURNS;
    }
    return event;
}

/* The first event of step n that is felt. */
Event first_event(const Room *room, const Course *course, int64_t n, double length, int64_t crossings,
                  const Limits *limits) {
    leave_out(room, n, crossings, course->slack);
    cut(n, 0.0, room);
    if (crossings && !holds(room, course, crossings)) return (Event){0.0, -1, -1, 0};
    if (crossings) find_unfelt(room, n, length, crossings, limits);
    return earliest(room, n, crossings);
}

/* Leave out of what was met along a curve what its own error makes: a row close to a line, or leaving it slowly, may be
   taken beyond it while its velocity there leads back, or nowhere. How many are left. Of shallow ones only the first
   are asked: more are taken one by one. Ends of slides are put where they really are. The curve's `length` matters to
   pulls that are given. */
PUBLIC int64_t biasfree_real(double *curve, double length, int64_t crossings, double slack, const Data *data,
                             Pattern *pattern, const Desk *desk, const Sought *sought) {
    const Trial trial = {0, 0, curve, 0, 0};
    const Room room = {data, pattern, 0, 0, 0, &trial, desk, sought, 0, 0.0, length};
    int64_t left = 0, asked = 0;
    for (int64_t i = 0; i < crossings; i++) {
        const double *met = sought->met + 4 * i;
        const int shallow = met[2] <= 1.0 && met[3] <= CURVE * slack;
        if (shallow && asked++ < SHALLOW && !is_real(&room, 0, met, slack)) continue;
        memmove(sought->met + 4 * left++, met, 4 * sizeof(double));
    }
    for (int64_t i = 0; i < pattern->count; i++) sought->ended[i] = end_of(&room, 0, i);
    return left;
}

/* How far a slide was beyond its end, before it ended and before x. */
double inadmissible(const Room *room, double x) {
    const int64_t slides = room->pattern->count;
    double worst = 0.0;
    for (int n = 0; n < NODES; n++)
        for (int64_t i = 0; i < slides; i++)
            if (TABLES.nodes[n] < smallest(room->sought->ended[i], x))
                worst = largest(worst, room->sought->beyond[n * slides + i]);
    return worst;
}
