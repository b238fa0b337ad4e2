/* Steps one after the other, until something happens within one. */

#include "engine.h"

/* The part of the step that the error allows, and the least that a step becomes of the one before: those of SciPy's
   Runge-Kutta methods. With a larger part more steps fail, with a smaller one all are shorter. */
#define CAREFUL 0.9
#define SHRINK 0.2
/* The same after an error of at least HOPELESS, or one that is no number. Chosen: such an error does not tell how far
   to go back; were it larger, more attempts would fail, were it smaller, steps would have to grow again. */
#define SHRINK_MOST 0.1
#define HOPELESS 1e10 /* chosen: from 1.7e5 on the error alone asks for less than SHRINK at order 8 */
/* Of an error, so that none of zero is taken to a power. A step of less grows by the most it may in any case: the
   factor of this one is 51 at order 8 and 570 at order 5, and a method's `grow` is 10 and 5. */
#define LEAST_ERROR 1e-14
/* Step × fastest rate from which stability holds the steps. Chosen: below CALM, where steps end that are held. Were it
   above, none of these would be counted; were it far below, also steps that their error makes short would be. */
#define STABLE 3.5
/* And at most: stability ends near 6 and 3.3. At its edge fast directions never come to rest by more than the
   tolerance, and tiny neurons near lines that are fitted feel it (wide seed 543). Chosen, about two thirds of these
   edges. */
#define CALM 4.0
#define CALM_SHORT 2.0
enum { SHORT_ORDER = 5 }; /* of the methods, that of short steps (pace.h) */
/* Of that rate from step to step: where fast directions rest, a step does not see them. Chosen: half of it is left
   after 14 steps. Were it larger, steps would stay short after a fast direction is gone; were it smaller, it would be
   forgotten. */
#define REMEMBER 0.95
/* What a failed step counts where stability holds the steps: more than the two of every three that may be accepted and
   take 1 off each. */
enum { FAILED = 3 };
/* Failed attempts for each step that may be taken. Chosen, against a march without end: who asked for it goes on from
   there. */
enum { TRIES = 2 };

/* What the next step should be, in units of one of this error. */
double next_length(double error, const Method *method) {
    if (!(error < INFINITY)) return SHRINK_MOST;
    const double factor = CAREFUL * pow(largest(error, LEAST_ERROR), -1.0 / (double)method->order);
    if (error <= 1.0) return smallest(method->grow, largest(SHRINK, factor));
    return largest(error < HOPELESS ? SHRINK : SHRINK_MOST, factor);
}

/* How far, at least, merged neurons are from their row where the desk starts: its radius. */
void reach_of_groups(const Data *data, const Pattern *pattern, const Apart *apart, const Desk *desk) {
    const int64_t columns = data->dim + data->outputs;
    const double *start = desk->rows + START * pattern->rows * columns;
    memset(desk->radius, 0, sizeof(double) * (size_t)pattern->active);
    for (int64_t row = pattern->active; row < pattern->rows; row++) {
        double extent = 0.0;
        for (int64_t j = 0; j < data->dim; j++) extent = largest(extent, fabs(start[row * columns + j]));
        desk->radius[pattern->owner[row]] += sqrt((double)data->dim) * apart->spread[row - pattern->active] * extent;
    }
}

/* The step that was accepted as number n becomes the start of the next. */
static double go_on(int64_t n, const Method *method, const Trial *trial, const Desk *desk, int64_t size) {
    const int64_t last = method->core - 1;
    memcpy(desk->rows + START * size, trial->curves + (n * NODES + NODES - 1) * size, sizeof(double) * (size_t)size);
    memcpy(trial->stages, trial->stages + last * size, sizeof(double) * (size_t)size);
    trial->powers[0] = trial->powers[last];
    return trial->energies[n * NODES + NODES - 1];
}

/* How steps held by stability are counted: at the edge of it every second or third step fails. */
int64_t count_stiff(int64_t stiff, double stiffness, int accepted) {
    if (stiffness > STABLE) return stiff + (accepted ? 1 : FAILED);
    return stiff > 0 ? stiff - 1 : 0;
}

/* The fastest rate, as the steps so far and an attempt show it: one that fails may have gone anywhere. */
double fastest_rate(double before, const Judged *judged, double length) {
    const double seen = judged->error <= 1.0 && length > 0.0 ? judged->stiffness / length : 0.0;
    return largest(REMEMBER * before, seen);
}

/* The longest step that lets fast directions rest. */
double calm_step(double rate, const Method *method) {
    return rate > 0.0 ? (method->order > SHORT_ORDER ? CALM : CALM_SHORT) / rate : INFINITY;
}

/* Steps from rows `z`; `trial` holds them all, `sought` what happened in the last one. The velocity where the steps end
   is the trial's first stage. */
PUBLIC void biasfree_march(const double *z, const Going *going, const Data *data, const Pattern *pattern,
                           const Form *form, const Limits *limits, const Method *method, const Apart *apart,
                           Own *own, const Trial *trial, const Desk *desk, const Sought *sought,
                           Marched *marched) {
    const int64_t size = pattern->rows * (data->dim + data->outputs);
    Marched now = {going->step, INFINITY, going->rate, 0, 0, going->stiff, -1};
    double time = 0.0, energy = going->energy;
    int64_t first = 0;
    memcpy(desk->rows + START * size, z, sizeof(double) * (size_t)size);
    while (now.crossings < 0 && now.steps < going->steps && now.rejected <= TRIES * going->steps &&
           time < going->left) {
        const double length = smallest(smallest(now.step, going->longest), going->left - time);
        Limits allowed = *limits;
        if (!(length > going->smallest)) break;
        if (going->per_time > 0.0) {
            allowed.rtol *= smallest(1.0, length * going->per_time);
            allowed.atol = 0.0;
        }
        const Judged judged = attempt(now.steps, first, time, length, energy, data, pattern, form, &allowed, method,
                                      apart->share, trial, desk);
        const double wanted = length * next_length(judged.error, method);
        const int accepted = judged.error <= 1.0;
        first = 1;
        now.rate = fastest_rate(now.rate, &judged, length);
        now.stiff = count_stiff(now.stiff, largest(judged.stiffness, now.rate * length), accepted);
        if (!accepted) {
            now.step = smallest(wanted, calm_step(now.rate, method));
            now.rejected++;
            continue;
        }
        /* A step cut short by the end says nothing against the one that was planned. */
        now.step = smallest(length >= now.step ? wanted : largest(now.step, wanted), calm_step(now.rate, method));
        now.smallest = smallest(now.smallest, length);
        trial->lengths[now.steps] = length;
        reach_of_groups(data, pattern, apart, desk);
        now.crossings = scan(trial->curves + now.steps * NODES * size, time, length, BLUR, data, pattern, going->level,
                             desk, sought);
        energy = go_on(now.steps, method, trial, desk, size);
        now.steps++;
        time += length;
        keep_balance(own, time, data, pattern, 0, 0, desk->rows + START * size);
        if (has_faded(own, pattern)) break;
    }
    *marched = now;
}
