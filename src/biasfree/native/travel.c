/* Steps from event to event, where a network is so small that a step of all rows costs next to nothing.

   A step in which something happens is cut at its first event that is felt; what follows is decided here where it is
   plain: a row meets one line while it slides on none, or ends the one slide it is on. Everything else (several lines at
   once, w = 0, v that vanishes, a group that must be parted, a loss level) is left to Python: the step is not taken. The
   rules are those of biasfree/dynamics/exact: _sliding.py, _alone.py (what is felt), _carried.py (groups), _events.py
   (what is real), and of biasfree/switching/_filippov.py. */

#include "engine.h"

enum { DONE = 0, ELSE = 1, NO_STEP = 2 };              /* why a course ends */
enum { CROSSED = 0, SLIDES = 1, LEFT = 2, STAYED = 3 }; /* what a row does at an event */

#define FORGET 0.3      /* weight of the last distance between events in its running mean */
#define RARER 1.1       /* what a step without an event makes of that mean, */
#define FREE 2.0        /* and what its length does at least */
#define EXPECTED 0.02   /* first guess of a short step, as part of a long one */
#define BEYOND 2.5      /* usual distances between events that a short step looks ahead */
#define CLOSEST 1e-3    /* part of a long step below which events do not make steps shorter */
#define TOGETHER 1e-12  /* part of a step within which a row meets several lines at once */
#define AT_A_BOUND 1e-11 /* of an interval's end, what rounding makes of it */
#define VANISHED 1e-9   /* |v|/|w| of a sliding row whose v is zero */
#define UNFELT 0.01     /* part of its tolerance that crossings may move a row by in a step and not be felt */
#define SOON 0.05       /* part of a step that a group may take to cross a line */
#define BEARS 0.1       /* part of a group's largest angle that lines may drive its neurons apart */
#define BRIEF 0.05      /* of the time in which a row moves by its own size, what a group may take to cross as one */
#define FLOOD 200       /* events without any time between them that are taken here */
#define SLOW 2e-4       /* of its size, what the network moves in a step where rest is looked for */
#define STABLE 4.0      /* step × fastest rate from which stability holds the steps */
#define NEVER 9.0       /* the time of a crossing that is none */

typedef struct {
    double long_step, short_step, gap, overhead, smallest; /* of _pace.Pace */
    int64_t stiff, accepted, rejected, evaluations;
} Pace;

typedef struct {
    double began, left, level, slack; /* when it begins, time until the end, ln L that ends it, error of a curve */
    double rtol, angle;               /* of the run, and between the neurons of a group */
    int64_t steps, attempts;          /* that may be taken */
    int64_t stiff, look;              /* steps held by stability, and accepted ones, from which others decide */
    double last_event;                /* when, since the beginning; from here on what is changed */
    double time, energy, inadmissible;
    int64_t taken, events, why;
    Pace pace;
} Course;

typedef struct {
    double *parts;                   /* of each step, how much of it was gone; (steps) */
    double *when;                    /* of each event; (events) */
    int64_t *rows, *lines, *kinds;   /* (events) */
    double *strain;                  /* how far lines have driven each group apart; (active) */
    double *scratch;                 /* (2 active + 2 outputs lines) */
    int64_t room;                    /* for events */
} Record;

typedef struct {
    const Data *data;
    Pattern *pattern;
    const Limits *limits;
    const Method *methods;
    const Apart *apart;
    const Trial *trial;
    const Desk *desk;
    const Sought *sought;
    const Record *record;
} Room;

typedef struct {
    double x;
    int64_t row, line; /* the line met, or −1: a slide ends */
    int plain;
} Event;

/* The method that goes further for its cost. */
static const Method *chosen(const Pace *pace, const Method *methods) {
    const double brief = pace->short_step > 0.0 ? pace->short_step : EXPECTED * pace->long_step;
    const double worth = ((double)methods[0].stages - 1.0 + pace->overhead) /
                         ((double)methods[1].stages - 1.0 + pace->overhead);
    return worth * smallest(brief, pace->gap) > smallest(pace->long_step, pace->gap) ? methods + 1 : methods;
}

/* Rows and energy at x of step n, to the desk's start. */
static double cut(int64_t n, double x, const Room *room) {
    const int64_t size = room->pattern->rows * (room->data->dim + room->data->outputs);
    static const double counts[NODES] = {1, 7, 21, 35, 35, 21, 7, 1};
    const double *curve = room->trial->curves + n * NODES * size;
    double weights[NODES], energy = 0.0, *start = room->desk->rows + START * size;
    for (int k = 0; k < NODES; k++) weights[k] = counts[k] * pow(x, k) * pow(1.0 - x, NODES - 1 - k);
    for (int k = 0; k < NODES; k++) energy += weights[k] * room->trial->energies[n * NODES + k];
    for (int64_t i = 0; i < size; i++) {
        start[i] = 0.0;
        for (int k = 0; k < NODES; k++) start[i] += weights[k] * curve[k * size + i];
    }
    return energy;
}

static double dot(const double *one, const double *other, int64_t count) {
    double total = 0.0;
    for (int64_t i = 0; i < count; i++) total += one[i] * other[i];
    return total;
}

/* d_lᵀ of a vector. */
static double along(const Data *data, const double *vector, int64_t line) {
    double total = 0.0;
    for (int64_t j = 0; j < data->dim; j++) total += vector[j] * data->transposed[j * data->lines + line];
    return total;
}

/* ẇ of row h from the pulls p and q in the desk's work; decay, which leads across nothing, is left out. */
static void pull_of(const Room *room, const double *z, int64_t h, double *moving) {
    const Data *data = room->data;
    const int64_t lines = data->lines, outputs = data->outputs, dim = data->dim;
    const double *work = room->desk->work, *side = room->pattern->side + h * lines, *v = z + dim;
    memset(moving, 0, sizeof(double) * (size_t)dim);
    for (int64_t line = 0; line < lines; line++) {
        double pull = 0.0;
        for (int64_t k = 0; k < outputs; k++)
            pull += v[k] * (work[k * lines + line] + side[line] * work[(outputs + k) * lines + line]);
        for (int64_t j = 0; j < dim; j++) moving[j] += pull * data->transposed[j * lines + line];
    }
    for (int64_t s = 0; s < room->pattern->span[h]; s++) {
        const double *held = room->pattern->basis + (h * room->pattern->room + s) * dim;
        const double part = dot(moving, held, dim);
        for (int64_t j = 0; j < dim; j++) moving[j] -= part * held[j];
    }
}

typedef struct { double strength, rest, noise, whole; } Met; /* v·q_l, d_lᵀ of ẇ without line l's ς, and their rounding */

/* What pulls row h across a line, from the pulls p and q in the desk's work, all its other sides as they are. */
static Met pulled_across(const Room *room, const double *z, int64_t h, int64_t line) {
    const Data *data = room->data;
    const int64_t lines = data->lines, outputs = data->outputs;
    const double *work = room->desk->work, *side = room->pattern->side + h * lines, *v = z + data->dim;
    Met met = {0.0, 0.0, 0.0, 0.0};
    for (int64_t k = 0; k < outputs; k++) met.strength += v[k] * work[(outputs + k) * lines + line];
    for (int64_t i = 0; i < 2 * outputs * lines; i++) met.whole += fabs(work[i]);
    for (int64_t l = 0; l < lines; l++) {
        double pull = 0.0, between = 0.0;
        for (int64_t k = 0; k < outputs; k++) {
            const double p = work[k * lines + l], q = l == line ? 0.0 : side[l] * work[(outputs + k) * lines + l];
            pull += v[k] * (p + q);
        }
        for (int64_t j = 0; j < data->dim; j++)
            between += data->transposed[j * lines + l] * data->transposed[j * lines + line];
        met.rest += between * pull;
    }
    met.noise = ROUNDING * sqrt(dot(v, v, outputs)) * (met.whole + data->mass);
    return met;
}

static void begin_slide(Pattern *pattern, const Data *data, int64_t h, int64_t line) {
    double *basis = pattern->basis + h * pattern->room * data->dim, *dual = pattern->dual + pattern->count * data->dim;
    for (int64_t j = 0; j < data->dim; j++) basis[j] = dual[j] = data->transposed[j * data->lines + line];
    pattern->slides[2 * pattern->count] = h;
    pattern->slides[2 * pattern->count + 1] = line;
    pattern->count++;
    pattern->span[h] = 1;
    pattern->side[h * data->lines + line] = 0.0;
}

static void end_slide(Pattern *pattern, const Data *data, int64_t which, double side) {
    const int64_t h = pattern->slides[2 * which], line = pattern->slides[2 * which + 1];
    const size_t after = (size_t)(pattern->count - which - 1);
    memmove(pattern->slides + 2 * which, pattern->slides + 2 * (which + 1), 2 * sizeof(int64_t) * after);
    memmove(pattern->dual + which * data->dim, pattern->dual + (which + 1) * data->dim,
            (size_t)data->dim * sizeof(double) * after);
    pattern->count--;
    pattern->span[h] = 0;
    pattern->side[h * data->lines + line] = side;
}

/* Filippov's ς on a single line that attracts. */
static double least_pull(const Met *met) {
    const double value = -met->rest / met->strength;
    return fabs(value) >= 1.0 - AT_A_BOUND ? (value > 0.0 ? 1.0 : -1.0) : value;
}

/* Something happened. */
static void noted(const Room *room, Course *course, double time, int64_t row, int64_t line, int64_t kind) {
    if (course->events == room->record->room) return; /* never: a course ends before */
    room->record->when[course->events] = time;
    room->record->rows[course->events] = row;
    room->record->lines[course->events] = line;
    room->record->kinds[course->events] = kind;
    course->events++;
}

/* Take the passive rows of row h through an event: neighbours meet the line at other times, by (d·δ)/(d·ẇ), and what the
   velocity changes by there, `change` along d, is added for that long. */
static void carry_over(const Room *room, double *start, int64_t h, int64_t line, double speed, double change, double pull) {
    const Data *data = room->data;
    const Pattern *pattern = room->pattern;
    const int64_t dim = data->dim, columns = dim + data->outputs;
    const double extent = sqrt(dot(start + h * columns, start + h * columns, dim));
    if (speed == 0.0) return;
    for (int64_t row = pattern->active; row < pattern->rows; row++) {
        if (pattern->owner[row] != h) continue;
        double *w = start + row * columns;
        const double apart = along(data, w, line);
        /* Where they cross one after the other for long, the group is parted. */
        if (fabs(apart) * pull > BRIEF * fabs(speed) * extent) continue;
        for (int64_t j = 0; j < dim; j++) w[j] += apart * change / speed * data->transposed[j * data->lines + line];
    }
}

/* Passive rows of row h lie on the line it slides on. */
static void put_on(const Room *room, double *start, int64_t h, int64_t line) {
    const int64_t dim = room->data->dim, columns = dim + room->data->outputs, lines = room->data->lines;
    for (int64_t row = room->pattern->active; row < room->pattern->rows; row++) {
        double *w = start + row * columns;
        if (room->pattern->owner[row] != h) continue;
        const double off = along(room->data, w, line);
        for (int64_t j = 0; j < dim; j++) w[j] -= off * room->data->transposed[j * lines + line];
    }
}

/* Row h is put on the line it has met, and does what the rule says. */
static int64_t meet(const Room *room, int64_t h, int64_t line) {
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs;
    double *start = room->desk->rows + START * room->pattern->rows * columns, *z = start + h * columns;
    double *side = room->pattern->side + h * data->lines + line;
    for (int twice = 0; twice < 2; twice++) {
        const double off = along(data, z, line);
        for (int64_t j = 0; j < data->dim; j++) z[j] -= off * data->transposed[j * data->lines + line];
    }
    pulls_here(start, data, room->pattern, room->desk->work);
    double *moving = room->desk->pull;
    pull_of(room, z, h, moving);
    const Met met = pulled_across(room, z, h, line);
    const double pull = sqrt(dot(moving, moving, data->dim)), was = met.rest + *side * met.strength;
    const double beyond = -*side, speed = met.rest + beyond * met.strength; /* with the new side */
    const int passes = beyond * speed > met.noise || fabs(met.strength) <= met.noise || met.strength >= 0.0;
    const double free = passes ? beyond : least_pull(&met);
    /* A row that its own side hardly moves would meet the line again and again: it is held there, with ς = ±1. */
    if (fabs(free) < 1.0 || (free == *side && *side * was <= met.noise)) {
        carry_over(room, start, h, line, was, -was, pull);
        put_on(room, start, h, line);
        begin_slide(room->pattern, data, h, line);
        return SLIDES;
    }
    if (free == *side) return STAYED;
    carry_over(room, start, h, line, was, 2.0 * beyond * met.strength, pull);
    *side = free;
    return CROSSED;
}

/* The one slide of a row is over, or only seemed to be. */
static int64_t leave(const Room *room, int64_t which) {
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs, h = room->pattern->slides[2 * which];
    const double *start = room->desk->rows + START * room->pattern->rows * columns;
    pulls_here(start, data, room->pattern, room->desk->work);
    const Met met = pulled_across(room, start + h * columns, h, room->pattern->slides[2 * which + 1]);
    const double free = least_pull(&met);
    if (fabs(free) < 1.0) return STAYED;
    end_slide(room->pattern, data, which, free);
    return LEFT;
}

/* Whether a slide on one line is over at x of step n: its line no longer holds the row, or v has turned. */
static int is_over(const Room *room, int64_t n, double x, int64_t which) {
    const Data *data = room->data;
    const int64_t dim = data->dim, columns = dim + data->outputs, h = room->pattern->slides[2 * which];
    const int64_t size = room->pattern->rows * columns;
    const double *start = room->desk->rows + START * size, *z = start + h * columns;
    cut(n, x, room);
    if (dot(z + dim, room->trial->curves + n * NODES * size + h * columns + dim, data->outputs) < 0.0) return 1;
    pulls_here(start, data, room->pattern, room->desk->work);
    const Met met = pulled_across(room, z, h, room->pattern->slides[2 * which + 1]);
    return met.noise - met.strength - fabs(met.rest) < 0.0;
}

/* When a slide ends, from the first zero of its interpolated margins. Over a step that is long beside the fastest rates
   these may be off: then it ends before the first node where a margin is below zero, or not at all (2). */
static double end_of(const Room *room, int64_t n, int64_t which) {
    const int64_t slides = room->pattern->count;
    double low = room->sought->ended[which], high = 2.0;
    if (low > 1.0 || room->pattern->span[room->pattern->slides[2 * which]] != 1 || is_over(room, n, low, which)) return low;
    for (int k = NODES - 1; k >= 0 && TABLES.nodes[k] > low; k--) {
        const double *values = room->sought->values + k * (3 * slides + 1) + 3 * which;
        if (values[0] < 0.0 || values[1] < 0.0 || values[2] < 0.0) high = TABLES.nodes[k];
    }
    if (high > 1.0 || !is_over(room, n, high, which)) return 2.0;
    while (high - low > 1e-14) {
        const double middle = 0.5 * (low + high);
        if (is_over(room, n, middle, which))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Whether what a slide ends by is plain: v is there, w is, and the line attracts. */
static int plain_end(const Room *room, int64_t n, double x, int64_t which) {
    const Data *data = room->data;
    const int64_t dim = data->dim, columns = dim + data->outputs, h = room->pattern->slides[2 * which];
    if (room->pattern->span[h] != 1 || dim < 2) return 0;
    cut(n, x, room);
    const double *start = room->desk->rows + START * room->pattern->rows * columns, *z = start + h * columns;
    double first = 0.0, second = 0.0;
    for (int64_t j = 0; j < dim; j++) first = largest(first, fabs(z[j]));
    for (int64_t k = dim; k < columns; k++) second = largest(second, fabs(z[k]));
    if (!(first > 0.0) || !(second > 4.0 * VANISHED * first * sqrt((double)dim))) return 0;
    pulls_here(start, data, room->pattern, room->desk->work);
    return pulled_across(room, z, h, room->pattern->slides[2 * which + 1]).strength < 0.0;
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
    cut(n, met[2], room);
    const double *start = room->desk->rows + START * room->pattern->rows * columns, *z = start + h * columns;
    double *moving = room->desk->pull;
    pulls_here(start, data, room->pattern, room->desk->work);
    pull_of(room, z, h, moving);
    const double side = room->pattern->side[h * data->lines + line];
    return side * along(data, moving, line) < -pulled_across(room, z, h, line).noise;
}

/* Whether a group that comes near a line stays together: it is over soon, or does little. The strain of all is added up.

   Neurons of a group cross one after the other, within the time 2·radius/|d·ẇ|. Where that is long beside the usual step,
   some may cross and others never, and the line drives them apart by up to its kick. */
static int holds(const Room *room, const Course *course, int64_t crossings) {
    const Data *data = room->data;
    const Pattern *pattern = room->pattern;
    const int64_t dim = data->dim, outputs = data->outputs, columns = dim + outputs, lines = data->lines;
    const double pace = course->pace.long_step;
    double *start = room->desk->rows + START * pattern->rows * columns, *moving = room->desk->pull;
    int whole = 1, known = 0;
    for (int64_t i = 0; i < crossings; i++) {
        const int64_t h = (int64_t)room->sought->met[4 * i], line = (int64_t)room->sought->met[4 * i + 1];
        const double *z = start + h * columns;
        double radius = 0.0, extent = 0.0, kick = 0.0;
        if (room->desk->radius[h] == 0.0 || room->sought->met[4 * i + 2] == NEVER) continue;
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
        const double lasts = 2.0 * radius / fabs(along(data, moving, line));
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
            if (moved[h] <= UNFELT * (limits->atol + limits->rtol * extent) && (next < 0 || seen[h] < seen[next])) next = h;
        }
        if (next < 0 || spent + seen[next] > UNFELT * limits->rtol) return;
        spent += seen[next];
        moved[next] = -1.0;
    }
}

/* Rows that crossed lines unfelt change sides where they are beyond them at x = end of step n, and nothing else. */
static void pass_unfelt(const Room *room, Course *course, int64_t crossings, double begin, double end, double length) {
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs;
    const double *start = room->desk->rows + START * room->pattern->rows * columns;
    for (int64_t i = 0; i < crossings; i++) {
        const double *met = room->sought->met + 4 * i;
        const int64_t h = (int64_t)met[0], line = (int64_t)met[1];
        double *side = room->pattern->side + h * data->lines + line;
        if (met[2] > end || room->record->scratch[h] >= 0.0) continue;
        if (*side * along(data, start + h * columns, line) >= 0.0) continue;
        *side = -*side;
        noted(room, course, begin + met[2] * length, h, line, CROSSED);
    }
}

/* The first event of step n that is felt; x = 2 if there is none. The desk's start is used up. */
static Event first_event(const Room *room, const Course *course, int64_t n, double length, int64_t crossings,
                         const Limits *limits) {
    const Pattern *pattern = room->pattern;
    const Sought *sought = room->sought;
    const Event other = {0.0, -1, -1, 0};
    Event event = {2.0, -1, -1, 1};
    for (int64_t i = 0; i < crossings; i++) {
        double *met = sought->met + 4 * i;
        if (met[2] <= 1.0 && !is_real(room, n, met, course->slack)) met[2] = NEVER;
    }
    for (int64_t i = 0; i < pattern->count; i++) sought->ended[i] = end_of(room, n, i);
    cut(n, 0.0, room);
    if (crossings && !holds(room, course, crossings)) return other;
    if (crossings) find_unfelt(room, n, length, crossings, limits);
    for (int64_t i = 0; i < crossings; i++) {
        const double *met = sought->met + 4 * i;
        const int64_t h = (int64_t)met[0];
        if (met[2] > 1.0 || met[2] > event.x + TOGETHER || room->record->scratch[h] < 0.0) continue;
        if (event.x <= 1.0 && h == event.row && fabs(met[2] - event.x) <= TOGETHER)
            event.plain = 0; /* several lines at once */
        else if (met[2] < event.x)
            event = (Event){met[2], h, (int64_t)met[1], room->data->dim > 1 && pattern->span[h] == 0};
    }
    for (int64_t i = 0; i < pattern->count; i++)
        if (sought->ended[i] <= smallest(1.0, event.x)) event = (Event){sought->ended[i], i, -1, 2};
    if (sought->ended[pattern->count] <= smallest(1.0, event.x)) return other; /* the loss level */
    if (event.x <= 1.0 && event.plain == 2 && !plain_end(room, n, event.x, event.row)) event.plain = 0;
    return event;
}

/* How far a slide was beyond its end, before it ended and before x. */
static double inadmissible(const Room *room, double x) {
    const int64_t slides = room->pattern->count;
    double worst = 0.0;
    for (int n = 0; n < NODES; n++)
        for (int64_t i = 0; i < slides; i++)
            if (TABLES.nodes[n] < smallest(room->sought->ended[i], x))
                worst = largest(worst, room->sought->beyond[n * slides + i]);
    return worst;
}

/* The step's length, and what it may be off by. */
static double planned(const Course *course, const Method *method, const Room *room, Limits *allowed) {
    const Pace *pace = &course->pace;
    double length = pace->long_step;
    *allowed = *room->limits;
    if (room->data->by_loss) { /* residuals are e^−m/L there: what counts is a margin's own error, not its relative one */
        const double *start = room->desk->rows + START * room->pattern->rows * (room->data->dim + room->data->outputs);
        allowed->rtol /= largest(1.0, -pulls_here(start, room->data, room->pattern, room->desk->work));
    }
    if (method->number == 1) {
        length = pace->short_step > 0.0 ? pace->short_step : EXPECTED * pace->long_step;
        length = smallest(length, smallest(pace->long_step, BEYOND * pace->gap));
    }
    length = smallest(length, course->left - course->time);
    if (method->number == 1) {
        allowed->rtol *= smallest(1.0, length / pace->long_step);
        allowed->atol = 0.0;
    }
    return length;
}

/* What a trial says of the next ones; whether it was accepted. */
static int judge(Course *course, const Method *method, double length, const Judged *judged) {
    Pace *pace = &course->pace;
    double *planned = method->number == 0 ? &pace->long_step : &pace->short_step;
    const double before = *planned > 0.0 ? *planned : EXPECTED * pace->long_step;
    const double wanted = length * next_length(judged->error, method);
    const int accepted = judged->error <= 1.0, held = judged->stiffness > STABLE;
    if (method->number == 0) pace->stiff = held ? pace->stiff + (accepted ? 1 : 3) : (pace->stiff > 0 ? pace->stiff - 1 : 0);
    pace->evaluations += (accepted ? method->stages : method->core) - 1;
    if (!accepted) {
        *planned = wanted;
        pace->rejected++;
        return 0;
    }
    *planned = length >= before ? wanted : largest(before, wanted);
    pace->smallest = smallest(pace->smallest, length);
    pace->accepted++;
    return 1;
}

/* Go on to the end of step n, or to the event in it; whether the velocity there must be found afresh. */
static int arrive(Course *course, const Method *method, double length, const Event *event, int64_t crossings,
                  const Room *room) {
    const int64_t n = course->taken, size = room->pattern->rows * (room->data->dim + room->data->outputs);
    const int64_t before = course->events;
    const double part = event->x <= 1.0 ? event->x : 1.0, begin = course->time;
    Pace *pace = &course->pace;
    course->energy = cut(n, part, room);
    course->time += part * length;
    room->record->parts[n] = part;
    room->trial->lengths[n] = length;
    course->taken++;
    if (crossings > 0) pass_unfelt(room, course, crossings, begin, part, length);
    if (event->x > 1.0) {
        memcpy(room->trial->stages, room->trial->stages + (method->core - 1) * size, sizeof(double) * (size_t)size);
        room->trial->powers[0] = room->trial->powers[method->core - 1];
        pace->gap = largest(RARER * pace->gap, FREE * length);
        return course->events > before;
    }
    const int64_t row = event->line < 0 ? room->pattern->slides[2 * event->row] : event->row;
    const int64_t line = event->line < 0 ? room->pattern->slides[2 * event->row + 1] : event->line;
    const int64_t kind = event->line < 0 ? leave(room, event->row) : meet(room, row, line);
    const double apart = largest(course->time - course->last_event, CLOSEST * pace->long_step);
    if (kind != STAYED) noted(room, course, course->time, row, line, kind);
    pace->gap = pace->gap == INFINITY ? apart : (1.0 - FORGET) * pace->gap + FORGET * apart;
    course->last_event = course->time;
    return 1;
}

static int is_slow(const Course *course, const Room *room, int64_t size) {
    double speed = 0.0, extent = 0.0;
    for (int64_t i = 0; i < size; i++) {
        speed = largest(speed, fabs(room->trial->stages[i]));
        extent = largest(extent, fabs(room->desk->rows[START * size + i]));
    }
    return course->pace.long_step * speed <= SLOW * extent;
}

/* Take steps from rows `z`, through plain events, as many as may be; the pattern changes in place. The
   velocity where they end is the trial's first stage. */
PUBLIC void biasfree_travel(double *z, const Data *data, Pattern *pattern, const Limits *limits, const Method *methods,
                            const Apart *apart, const Trial *trial, const Desk *desk, const Sought *sought,
                            Course *course, const Record *record) {
    const Room room = {data, pattern, limits, methods, apart, trial, desk, sought, record};
    const Form none = {0, 0, 0};
    const int64_t size = pattern->rows * (data->dim + data->outputs);
    int64_t fresh = 1, flood = 0;
    double *start = desk->rows + START * size;
    course->why = DONE;
    memcpy(start, z, sizeof(double) * (size_t)size);
    while (course->taken < course->steps && course->time < course->left) {
        const double least = 1e-15 * (course->began + course->time) + 1e-300;
        Limits allowed;
        if (course->pace.accepted + course->pace.rejected >= course->attempts) break;
        const Method *method = chosen(&course->pace, methods);
        const double length = planned(course, method, &room, &allowed);
        if (!(length > least)) {
            course->why = NO_STEP;
            break;
        }
        const Judged judged = attempt(course->taken, fresh ? 0 : 1, 0.0, length, course->energy, data, pattern, &none,
                                      &allowed, method, apart->share, trial, desk);
        fresh = 0;
        const Course before = *course;
        if (!judge(course, method, length, &judged)) continue;
        reach_of_groups(data, pattern, apart, desk);
        const int64_t crossings = scan(trial->curves + course->taken * NODES * size, 0.0, length, BLUR, data, pattern,
                                       course->level, desk, sought);
        Event event = {2.0, -1, -1, 1};
        if (crossings >= 0) event = first_event(&room, course, course->taken, length, crossings, &allowed);
        if (crossings == sought->room || course->events + sought->room >= record->room || !event.plain || flood > FLOOD) {
            memcpy(start, z, sizeof(double) * (size_t)size);
            *course = before;
            course->why = ELSE;
            break;
        }
        course->inadmissible = largest(course->inadmissible, inadmissible(&room, event.x));
        fresh = arrive(course, method, length, &event, crossings, &room);
        flood = event.x <= 1.0 && event.x * length <= 1e-14 * (course->began + course->time) ? flood + 1 : 0;
        memcpy(z, start, sizeof(double) * (size_t)size);
        if (course->pace.stiff >= course->stiff) break;
        if (!fresh && course->pace.accepted >= course->look && is_slow(course, &room, size)) break;
    }
    if (fresh) attempt(0, 0, 0.0, 0.0, 0.0, data, pattern, &none, limits, methods, apart->share, trial, desk);
}
