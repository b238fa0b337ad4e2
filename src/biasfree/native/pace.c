/* The pace of explicit steps: one rule, for steps that are taken here (travel.c) and for marches that Python asks
   for. */

#include "pace.h"

/* All of these are chosen. They decide what steps cost, never what they give: each is still judged by its error. */

/* Weight of the last distance between events in its running mean: most of it is of the last six. Were it larger, one
   distance would decide alone; were it smaller, it would take long to see that events have become rarer or more
   frequent. */
#define FORGET 0.3
/* What a step without an event makes of that mean, and what its length does at least: it was no longer than the
   distance, and tells no more. Were they larger, long steps would be tried that are cut short; were they smaller, short
   ones would go on where nothing happens. */
#define RARER 1.1
#define FREE 2.0
/* First guess of a short step, as part of a long one: one that is too long fails once, one that is too short grows. */
#define EXPECTED 0.2
/* Usual distances between events that a short step looks ahead: were there more, its error would be held small over a
   way that it does not go; were there fewer, it would end before its event. */
#define LOOKS_AHEAD 2.5
/* Part of a long step below which events do not make steps shorter: those that come together would take the mean to
   nothing, and it would take long to recover. */
#define CLOSEST 1e-3
/* What a short step makes of a long one that is shorter than the usual distance between events: else it would never be
   tried again where a kink has made it short, and short ones are held by stability for good (wide seeds 3087, 7971). So
   it doubles in 70 steps; were it larger, long steps would fail more often. */
#define TRIED_AGAIN 1.01

/* The method that goes further for its cost. */
int64_t biasfree_pace_method(const Pace *pace, const Method *methods) {
    const double brief = biasfree_pace_step(pace, SHORT);
    const double worth = ((double)methods[LONG].stages - 1.0 + pace->overhead) /
                         ((double)methods[SHORT].stages - 1.0 + pace->overhead);
    return worth * smallest(brief, pace->gap) > smallest(pace->long_step, pace->gap) ? SHORT : LONG;
}

/* The next step by a method. */
double biasfree_pace_step(const Pace *pace, int64_t number) {
    if (number == LONG) return pace->long_step;
    return pace->short_step > 0.0 ? pace->short_step : EXPECTED * pace->long_step;
}

/* And the longest worth taking. */
double biasfree_pace_longest(const Pace *pace, int64_t number) {
    return number == LONG ? INFINITY : smallest(pace->long_step, LOOKS_AHEAD * pace->gap);
}

/* Some short steps were taken. */
void biasfree_pace_went_short(Pace *pace, int64_t steps) {
    if (pace->long_step < pace->gap) pace->long_step *= pow(TRIED_AGAIN, (double)steps);
}

/* An event ended a step, a distance after the one before. */
void biasfree_pace_met_event(Pace *pace, double distance) {
    distance = largest(distance, CLOSEST * pace->long_step);
    pace->gap = pace->gap == INFINITY ? distance : (1.0 - FORGET) * pace->gap + FORGET * distance;
}

/* A step that no event ended: they have become rarer. */
void biasfree_pace_free(Pace *pace, double length) { pace->gap = largest(RARER * pace->gap, FREE * length); }
