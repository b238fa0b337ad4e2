/* Steps one after the other, until something happens within one. */

#include "engine.h"

#define SHRINK_MOST 0.1 /* usual bounds of a step's change */
#define SHRINK 0.2
#define CAREFUL 0.9 /* usual part of the step that the error allows */
#define STABLE 3.5  /* step × fastest rate from which stability holds the steps */
/* And at most: stability ends near 6 and 3.3. At its edge fast directions never come to rest by more than the
   tolerance, and tiny neurons near lines that are fitted feel it (wide seed 543). */
#define CALM 4.0
#define CALM_SHORT 2.0
#define REMEMBER 0.95 /* of that rate from step to step: where fast directions rest, a step does not see them */

/* What the next step should be, in units of one of this error. */
double next_length(double error, const Method *method) {
    if (!(error < INFINITY)) return SHRINK_MOST;
    const double factor = CAREFUL * pow(largest(error, 1e-14), -1.0 / (double)method->order);
    if (error <= 1.0) return smallest(method->grow, largest(SHRINK, factor));
    return largest(error < 1e10 ? SHRINK : SHRINK_MOST, factor);
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
    if (stiffness > STABLE) return stiff + (accepted ? 1 : 3);
    return stiff > 0 ? stiff - 1 : 0;
}

/* The fastest rate, as the steps so far and an attempt show it: one that fails may have gone anywhere. */
double fastest_rate(double before, const Judged *judged, double length) {
    const double seen = judged->error <= 1.0 && length > 0.0 ? judged->stiffness / length : 0.0;
    return largest(REMEMBER * before, seen);
}

/* The longest step that lets fast directions rest. */
double calm_step(double rate, const Method *method) {
    return rate > 0.0 ? (method->order > 5 ? CALM : CALM_SHORT) / rate : INFINITY;
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
    while (now.crossings < 0 && now.steps < going->steps && now.rejected <= 2 * going->steps && time < going->left) {
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
