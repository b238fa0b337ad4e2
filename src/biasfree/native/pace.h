/* How long the next explicit step should be, and by which method; biasfree/dynamics/exact/_pace.py says why. */

#ifndef BIASFREE_PACE_H
#define BIASFREE_PACE_H

#include "engine.h"

enum { LONG = 0, SHORT = 1 }; /* steps of order 8, and of order 5 */

typedef struct {
    double long_step, short_step;  /* the next ones; short 0: not tried yet */
    double gap;                    /* usual distance between events */
    double overhead;               /* what a step costs besides its evaluations, in evaluations */
    double smallest;               /* accepted step */
    double rate;                   /* the fastest, as steps have shown it */
    int64_t stiff;                 /* steps held by stability, less those that were not */
    int64_t accepted, rejected, evaluations;
} Pace;

PUBLIC int64_t biasfree_pace_method(const Pace *pace, const Method *methods);
PUBLIC double biasfree_pace_step(const Pace *pace, int64_t number);
PUBLIC double biasfree_pace_longest(const Pace *pace, int64_t number);
PUBLIC void biasfree_pace_went_short(Pace *pace, int64_t steps);
PUBLIC void biasfree_pace_met_event(Pace *pace, double distance);
PUBLIC void biasfree_pace_free(Pace *pace, double length);

#endif
