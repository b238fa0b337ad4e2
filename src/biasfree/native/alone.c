/* Rows that go alone after an event within a step, by the pulls that the step of all rows has seen (_alone.py).

   Here they go through plain events: a row meets one line while it slides on none, or ends the one slide it is on. A
   row that meets anything else is left to Python from its first event on. */

#include "travel.h"

enum { NO_EVENT = -1 };

#define STEPS 8 /* of a row in one march: the trial has room for so many (_follow.py) */
/* Arcs of a row in a step: one for each event, or more. Chosen, as in _follow.py: a row that has more of them is left
   to Python, which ends the step at its event. */
#define MOST_ARCS 40

typedef struct {
    const double *curve;         /* of all rows along the step, (8, rows, columns) */
    const double *when;          /* x of the first event of each, (count) */
    const int64_t *rows, *lines; /* whose it is, and the line met, or −1: a slide ends; (count) */
    double length, end;          /* of the step, and x where it ends at the latest */
    int64_t count;
} Light;

typedef struct {
    int64_t *way;                  /* which of the light rows; (room), as all that follows */
    double *begin, *end, *reach;   /* x */
    double *curves, *energies;     /* (…, 8, columns), (…, 8) */
    double *side;                  /* (…, lines) */
    int64_t *held;                 /* line slid on, or −1 */
    int64_t *line, *kind;          /* of the event at its beginning, if there was one */
    int64_t room, count;
} Arcs;

/* The pattern of one row; whether it slides on one line at most. */
static int take_pattern(Pattern *own, const Pattern *all, const Data *data, int64_t h) {
    memcpy(own->side, all->side + h * data->lines, sizeof(double) * (size_t)data->lines);
    own->count = own->span[0] = 0;
    if (all->span[h] > 1) return 0;
    for (int64_t i = 0; i < all->count; i++)
        if (all->slides[2 * i] == h) {
            if (own->count) return 0; /* opposite or equal lines */
            own->slides[0] = 0;
            own->slides[1] = all->slides[2 * i + 1];
            for (int64_t j = 0; j < data->dim; j++)
                own->basis[j] = own->dual[j] = data->transposed[j * data->lines + own->slides[1]];
            own->count = own->span[0] = 1;
        }
    return own->count == all->span[h];
}

/* M of the row as a curve, from the pulls' curve and its sides. */
static void take_form(const Form *form, const Data *data, const Pattern *own) {
    const int64_t lines = data->lines, outputs = data->outputs;
    for (int n = 0; n < NODES; n++)
        for (int64_t k = 0; k < outputs; k++) {
            const double *p = data->given + (2 * n * outputs + k) * lines, *q = p + outputs * lines;
            for (int64_t j = 0; j < data->dim; j++) {
                const double *d = data->transposed + j * lines;
                double total = 0.0;
                for (int64_t line = 0; line < lines; line++) total += (p[line] + own->side[line] * q[line]) * d[line];
                form->constant[(n * data->dim + j) * outputs + k] = total;
            }
        }
}

/* The row does what follows from an event where the desk starts, on the line met or, if there is none, on the one it
   slides on, which `line` is then; NO_EVENT if that is not plain. */
static int64_t decided(const Room *room, int64_t *line) {
    const double *z = room->desk->rows + START * (room->data->dim + room->data->outputs);
    int64_t any = 0;
    for (int64_t j = 0; j < room->data->dim; j++) any += z[j] != 0.0;
    if (!any) return NO_EVENT;
    if (*line >= 0)
        return room->pattern->span[0] == 0 && !is_at_zero(room, 0, *line) ? meet(room, 0, *line, 0.0) : NO_EVENT;
    if (room->pattern->count == 0 || !plain_end(room, 0.0, 0)) return NO_EVENT;
    *line = room->pattern->slides[1];
    return leave(room, 0, 0.0);
}

/* Steps that were marched become arcs; where the last one ends. */
static double keep(const Room *room, int64_t steps, const Event *event, double x, double length, int64_t way,
                   const int64_t *happened, Arcs *arcs) {
    const int64_t columns = room->data->dim + room->data->outputs, lines = room->data->lines;
    for (int64_t n = 0; n < steps; n++) {
        const int64_t at = arcs->count++;
        const double reach = x + room->trial->lengths[n] / length;
        const double part = n == steps - 1 && event->x <= 1.0 ? event->x : 1.0;
        arcs->way[at] = way;
        arcs->begin[at] = x;
        arcs->end[at] = x + part * (reach - x);
        arcs->reach[at] = reach;
        memcpy(arcs->curves + at * NODES * columns, room->trial->curves + n * NODES * columns,
               sizeof(double) * (size_t)(NODES * columns));
        memcpy(arcs->energies + at * NODES, room->trial->energies + n * NODES, sizeof(double) * NODES);
        memcpy(arcs->side + at * lines, room->pattern->side, sizeof(double) * (size_t)lines);
        arcs->held[at] = room->pattern->count ? room->pattern->slides[1] : -1;
        arcs->line[at] = happened[0];
        arcs->kind[at] = n ? NO_EVENT : happened[1];
        x = arcs->end[at];
    }
    return x;
}

/* The first event after a march, whose last step it is in. */
static Event next_event(Room *room, const Marched *marched, double slack) {
    const int64_t last = marched->steps - 1;
    Event event = {NO_TIME, -1, -1, 1};
    if (marched->crossings < 0) return event;
    if (marched->crossings == room->sought->room) return (Event){0.0, -1, -1, 0};
    room->begin = 0.0;
    for (int64_t n = 0; n < last; n++) room->begin += room->trial->lengths[n];
    room->length = room->trial->lengths[last];
    room->record->scratch[0] = 0.0; /* every crossing is felt */
    leave_out(room, last, marched->crossings, slack);
    return earliest(room, last, marched->crossings);
}

/* The way of one row after its first event; whether all that it meets is plain. */
static int follow_way(int64_t way, const Light *light, Data *data, const Pattern *all, const Limits *limits,
                      const Method *method, const Form *form, Room *room, Arcs *arcs) {
    const int64_t columns = data->dim + data->outputs, h = light->rows[way], first = arcs->count;
    double *start = room->desk->rows + START * columns, *z = room->record->scratch + 1, weights[NODES];
    double x = light->when[way], energy = 0.0, wanted = INFINITY;
    int64_t happened[2] = {light->lines[way], NO_EVENT}, pending = 1;
    if (!take_pattern(room->pattern, all, data, h)) return 0;
    bernstein(x, weights);
    for (int64_t j = 0; j < columns; j++) {
        start[j] = 0.0;
        for (int n = 0; n < NODES; n++) start[j] += weights[n] * light->curve[(n * all->rows + h) * columns + j];
    }
    while (x < light->end) {
        const double left = (light->end - x) * light->length;
        data->given_at = x;
        if (arcs->count - first > MOST_ARCS || arcs->count + STEPS > arcs->room) return 0;
        happened[1] = NO_EVENT;
        if (pending && (happened[1] = decided(room, happened)) == NO_EVENT) return 0;
        if (happened[1] == STAYED) happened[1] = NO_EVENT;
        take_form(form, data, room->pattern);
        memcpy(z, start, sizeof(double) * (size_t)columns);
        const Going going = {left, TOLD_TIMES * left, INFINITY, smallest(wanted, left), 0.0, energy, -INFINITY, 0.0, 0,
                             STEPS};
        Marched marched;
        biasfree_march(z, &going, data, room->pattern, form, limits, method, room->apart, 0, room->trial, room->desk,
                       room->sought, &marched);
        if (marched.steps == 0) return 0;
        const Event event = next_event(room, &marched, limits->rtol);
        if (event.plain != 1) return 0;
        x = keep(room, marched.steps, &event, x, light->length, way, happened, arcs);
        energy = cut(marched.steps - 1, event.x <= 1.0 ? event.x : 1.0, room);
        wanted = marched.step;
        pending = event.x <= 1.0;
        happened[0] = event.line;
    }
    return 1;
}

/* The ways of light rows. */
PUBLIC void biasfree_alone(const Light *light, const Data *given, const Pattern *all, const Limits *limits,
                           const Method *method, Pattern *own, const Form *form, const Trial *trial, const Desk *desk,
                           const Sought *sought, double *scratch, Arcs *arcs) {
    const Apart apart = {0, 0};
    const Record record = {0, 0, 0, 0, 0, 0, scratch, 0};
    Data data = *given;
    Room room = {&data, own, limits, method, &apart, trial, desk, sought, &record, 0.0, 0.0};
    for (int64_t way = 0; way < light->count; way++) {
        const int64_t first = arcs->count;
        if (!follow_way(way, light, &data, all, limits, method, form, &room, arcs)) arcs->count = first;
    }
}
