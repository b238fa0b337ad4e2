/* What the parts of `travel` share: where a course stands, what it may work with, and what they offer each other. */

#ifndef BIASFREE_TRAVEL_H
#define BIASFREE_TRAVEL_H

#include "engine.h"
#include "pace.h"

/* Of the ends of [−1, 1] what rounding makes, and of a pull. Chosen: a hundred times ROUNDING, as ς is a quotient of
   pulls. Were it smaller, rounding would hold rows that leave; were it larger, rows would leave that are held. */
#define AT_A_BOUND 1e-11
/* |v|/|w| of a sliding row whose v is zero. Chosen: v is as near to zero as the time of the event is known, 1e-15 of a
   step, times what v changes by in the step. Were it smaller, rounding would decide; larger, v would be cut that is
   there. */
#define NO_V 1e-9
/* |w|/|v| of a row whose w is nothing. Bound: a thousand times what the row's rounding leaves of it. Were it smaller,
   rounding would be taken for w; larger, rows that pass close to w = 0 would be put there. */
#define NO_W 1e-10
/* Of w, what is left of it on a line that is met at w = 0. Chosen: rounding of the rest of w, beside w as it is where the
   event was found. Were it larger, rows that pass close to w = 0 would be put there again and again. */
#define LAST 1e-3
/* Part of its tolerance that crossings may move a row by in a step and not be felt. Chosen: a hundred such steps spend
   what one step may. Were it larger, errors would be; were it smaller, more crossings would end steps. */
#define UNFELT 0.01

/* Events that are plain, but not the usual ones: a row gets to w = 0, where all lines meet and others may have to
   decide what follows; v of a sliding row vanishes. */
enum { TO_ZERO = 2, V_TURNS = 3 };
enum { CROSSED = 0, SLIDES = 1, LEFT = 2, BRANCHED = 3, STAYED = 4 }; /* what a row does at an event */

typedef struct {
    double began, left, level, slack; /* when it begins, time until the end, ln L that ends it, error of a curve */
    double rtol, angle;               /* of the run, and between the neurons of a group */
    double outgrown;                  /* squared differences within a group, in units of its row, that part it */
    int64_t steps, attempts;          /* that may be taken */
    int64_t stiff, look;              /* steps held by stability, and accepted ones, from which others decide */
    double last_event;                /* when, since the beginning; from here on what is changed */
    double time, energy, inadmissible;
    int64_t taken, events, why;
    int64_t row, line;                /* of the event that ended it, where others decide about it */
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
    double begin, length; /* of the step that is looked at, since the beginning: for pulls that are given */
} Room;

typedef struct {
    double x;
    int64_t row, line; /* the line met, or −1: a slide ends */
    int plain;         /* 1, TO_ZERO or V_TURNS; 0: not at all */
} Event;

/* v·q_l, d_lᵀ of ẇ without line l's ς, and their rounding. */
typedef struct { double strength, rest, noise, whole; } Met;

/* decide.c */
void pulls_at(const Room *room, double time);
double dot(const double *one, const double *other, int64_t count);
double along(const Data *data, const double *vector, int64_t line);
void pull_of(const Room *room, const double *z, int64_t h, double *moving);
Met pulled_across(const Room *room, const double *v, int64_t h, int64_t line);
int is_at_zero(const Room *room, int64_t h, int64_t line);
int64_t meet(const Room *room, int64_t h, int64_t line, double time);
int64_t leave(const Room *room, int64_t which, double time);
int has_turned(const Room *room, int64_t which);
int64_t turn_over(const Room *room, int64_t which);
double within_bounds(double value);
void begin_slide(Pattern *pattern, const Data *data, int64_t h, int64_t line);
void end_slide(Pattern *pattern, const Data *data, int64_t which, double side);

/* zero.c */
int leave_zero(const Room *room, int64_t h);

/* happen.c */
double cut(int64_t n, double x, const Room *room);
int plain_end(const Room *room, double time, int64_t which);
void leave_out(const Room *room, int64_t n, int64_t crossings, double slack);
Event earliest(const Room *room, int64_t n, int64_t crossings);
Event first_event(const Room *room, const Course *course, int64_t n, double length, int64_t crossings,
                  const Limits *limits);
double inadmissible(const Room *room, double x);

#endif
