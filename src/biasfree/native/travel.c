/* Steps from event to event, where a network is so small that a step of all rows costs next to nothing.

   A step in which something happens is cut at its first event that is felt; what follows is decided here where it is
   plain: a row meets one line while it slides on none, or ends the one slide it is on, by v that vanishes too, or comes
   to w = 0 in the plane (zero.c). Elsewhere Python decides what a row does at w = 0. Everything else (several lines at
   once, a group that must be parted, a loss level) is left to Python altogether: the step is not taken. The rules are
   those of biasfree/dynamics/exact: _sliding.py, _alone.py (what is felt), _carried.py (groups), _events.py (what is
   real), and of biasfree/switching/_filippov.py. */

#include "travel.h"

enum { DONE = 0, ELSE = 1, NO_STEP = 2, AT_ZERO = 3 }; /* why a course ends */

/* Events without any time between them that are taken here. Chosen: far more than rows meet lines at once, below the
   1000 after which Python says that the flow is stuck (_state.py). */
#define FLOOD 200
#define NO_WAIT 1e-14 /* part of the time so far that is none between events; chosen: ten times TOLD_TIMES */
/* Of its size, what the network moves in a step where rest is looked for. Chosen: were it larger, it would be looked
   for in vain more often, which costs; were it smaller, a network that comes to rest would take more explicit steps. */
#define SLOW 2e-4

/* Something happened. */
static void noted(const Room *room, Course *course, double time, int64_t row, int64_t line, int64_t kind) {
    if (course->events == room->record->room) return; /* never: a course ends before */
    room->record->when[course->events] = time;
    room->record->rows[course->events] = row;
    room->record->lines[course->events] = line;
    room->record->kinds[course->events] = kind;
    course->events++;
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

/* The step's length, and what it may be off by. */
static double planned(const Course *course, const Method *method, const Room *room, Limits *allowed) {
    const Pace *pace = &course->pace;
    double length = smallest(biasfree_pace_step(pace, method->number), biasfree_pace_longest(pace, method->number));
    *allowed = *room->limits;
    if (room->data->by_loss) { /* residuals are e^−m/L there: a margin's own error counts, not its relative one */
        const double *start = room->desk->rows + START * room->pattern->rows * (room->data->dim + room->data->outputs);
        allowed->rtol /= largest(1.0, -pulls_here(start, room->data, room->pattern, room->desk->work));
    }
    length = smallest(length, course->left - course->time);
    if (method->number == SHORT) {
        allowed->rtol *= smallest(1.0, length / pace->long_step);
        allowed->atol = 0.0;
    }
    return length;
}

/* What a trial says of the next ones; whether it was accepted. */
static int judge(Course *course, const Method *method, double length, const Judged *judged) {
    Pace *pace = &course->pace;
    double *planned = method->number == LONG ? &pace->long_step : &pace->short_step;
    const double before = biasfree_pace_step(pace, method->number);
    const double wanted = length * next_length(judged->error, method);
    const int accepted = judged->error <= 1.0;
    pace->rate = fastest_rate(pace->rate, judged, length);
    if (method->number == LONG)
        pace->stiff = count_stiff(pace->stiff, largest(judged->stiffness, pace->rate * length), accepted);
    pace->evaluations += (accepted ? method->stages : method->core) - 1;
    if (!accepted) {
        *planned = smallest(wanted, calm_step(pace->rate, method));
        pace->rejected++;
        return 0;
    }
    *planned = smallest(length >= before ? wanted : largest(before, wanted), calm_step(pace->rate, method));
    if (method->number == SHORT) biasfree_pace_went_short(pace, 1);
    pace->smallest = smallest(pace->smallest, length);
    pace->accepted++;
    return 1;
}

/* An event has ended a step: the velocity must be found afresh. */
static int met_event(Course *course) {
    biasfree_pace_met_event(&course->pace, course->time - course->last_event);
    course->last_event = course->time;
    return 1;
}

/* A row is at w = 0: what it does there, if that is plain; else the course ends. */
static int reach_zero(const Room *room, Course *course, const Event *event) {
    const int64_t lines = room->data->lines;
    if (event->plain != TO_ZERO || !leave_zero(room, event->row)) {
        course->why = AT_ZERO;
        course->row = event->row;
        course->line = event->line;
        return 0;
    }
    for (int64_t line = 0; line < lines; line++)
        if (room->pattern->side[event->row * lines + line] != 0.0)
            noted(room, course, course->time, event->row, line, BRANCHED);
    return 1;
}

/* Go on to the end of step n, or to the event in it; whether the velocity there must be found afresh. */
static int arrive(Course *course, const Method *method, double length, const Event *event, int64_t crossings,
                  const Room *room) {
    const int64_t n = course->taken, size = room->pattern->rows * (room->data->dim + room->data->outputs);
    const int64_t before = course->events;
    const double part = event->x <= 1.0 ? event->x : 1.0, begin = course->time;
    course->energy = cut(n, part, room);
    course->time += part * length;
    room->record->parts[n] = part;
    room->trial->lengths[n] = length;
    course->taken++;
    if (crossings > 0) pass_unfelt(room, course, crossings, begin, part, length);
    if (event->x > 1.0) {
        memcpy(room->trial->stages, room->trial->stages + (method->core - 1) * size, sizeof(double) * (size_t)size);
        room->trial->powers[0] = room->trial->powers[method->core - 1];
        biasfree_pace_free(&course->pace, length);
        return course->events > before;
    }
    if (event->plain == TO_ZERO || (event->line >= 0 && is_at_zero(room, event->row, event->line)))
        return reach_zero(room, course, event) ? met_event(course) : 0;
    const int64_t row = event->line < 0 ? room->pattern->slides[2 * event->row] : event->row;
    const int64_t line = event->line < 0 ? room->pattern->slides[2 * event->row + 1] : event->line;
    const int64_t kind = event->plain == V_TURNS ? turn_over(room, event->row)
                         : event->line < 0       ? leave(room, event->row, 0.0)
                                                 : meet(room, row, line, 0.0);
    if (kind != STAYED) noted(room, course, course->time, row, line, kind);
    return met_event(course);
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
                            const Apart *apart, Own *own, const Trial *trial, const Desk *desk,
                            const Sought *sought, Course *course, const Record *record) {
    const Room room = {data, pattern, limits, methods, apart, trial, desk, sought, record, 0.0, 0.0};
    const Form none = {0, 0, 0};
    const int64_t size = pattern->rows * (data->dim + data->outputs);
    int64_t fresh = 1, flood = 0;
    double *start = desk->rows + START * size;
    course->why = DONE;
    memcpy(start, z, sizeof(double) * (size_t)size);
    while (course->taken < course->steps && course->time < course->left) {
        const double least = TOLD_TIMES * (course->began + course->time) + TINY;
        Limits allowed;
        if (course->pace.accepted + course->pace.rejected >= course->attempts) break;
        const Method *method = methods + biasfree_pace_method(&course->pace, methods);
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
        Event event = {NO_TIME, -1, -1, 1};
        if (crossings >= 0) event = first_event(&room, course, course->taken, length, crossings, &allowed);
        if (crossings == sought->room || course->events + sought->room + data->lines >= record->room || !event.plain ||
            flood > FLOOD) {
            memcpy(start, z, sizeof(double) * (size_t)size);
            *course = before;
            course->why = ELSE;
            break;
        }
        course->inadmissible = largest(course->inadmissible, inadmissible(&room, event.x));
        fresh = arrive(course, method, length, &event, crossings, &room);
        flood = event.x <= 1.0 && event.x * length <= NO_WAIT * (course->began + course->time) ? flood + 1 : 0;
        keep_balance(own, course->time, data, pattern, 0, 0, start);
        memcpy(z, start, sizeof(double) * (size_t)size);
        if (course->why == AT_ZERO || course->pace.stiff >= course->stiff) break;
        if (has_faded(own, pattern)) break;
        if (has_parted(z, pattern, data->dim + data->outputs, course->outgrown, record->scratch)) break;
        if (leans(z, data, pattern)) break;
        if (!fresh && course->pace.accepted >= course->look && is_slow(course, &room, size)) break;
    }
    if (fresh) attempt(0, 0, 0.0, 0.0, 0.0, data, pattern, &none, limits, methods, apart->share, trial, desk);
}
