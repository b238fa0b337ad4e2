/* The first zero of sums of exponentials.

   Σ_j c_j e^{r_j t}, rates falling, stays positive for ever if its coefficients, added up from the largest rate down,
   stay positive (summation by parts). Where they do not, it is taken in units of its leading term, Σ_j c_j e^{s_j t},
   s_j = r_j − r_1 ≤ 0: a time without zeros follows from the value, the slope and a bound on the second derivative. Times
   are halved until they are such, or until the sum can only fall within them: its zero is then found by Newton's steps,
   held inside by halving. They are searched arc by arc; where rates are almost the same, a sum changes so slowly beside
   its leading term that many arcs are passed at once. */

#include "engine.h"

/* E-folds of the fastest mode that are searched at once. Chosen: the bound on the second derivative is e² times too
   large at most, then. Were it larger, more halvings would be needed; were it smaller, there would be more arcs. */
#define ARC 1.0
#define SHORTEST 1e-13 /* part of an arc at which a zero is located; chosen: 450 times float64's rounding */
/* Part of a sum's terms by which rounding may move it. Chosen: 4500 times float64's, for coefficients that are sums
   themselves. Were it smaller, a sum that begins at zero would end there; were it larger, short dips would be passed
   over. */
#define BEGUN 1e-12
enum { OPEN = 64 };    /* halvings that are ever open at once: SHORTEST allows for 44, as 2^-44 is 6e-14 */
#define OVERSHOOT 0.25 /* of the distance to be reached: both ends, so far beyond the zero, are half of it apart */

/* One sum; one that begins at zero exactly is what it has grown by: where its terms cancel nothing else is right. */
typedef struct {
    const double *rates, *part; /* in units of the leading term: none grows */
    double lead;                /* its rate */
    int64_t terms;
    int at_zero;
} Sum;

static double value_at(const Sum *sum, double time) {
    double total = 0.0;
    for (int64_t j = 0; j < sum->terms; j++)
        total += sum->part[j] * (sum->at_zero ? expm1(sum->rates[j] * time) : exp(sum->rates[j] * time));
    return total;
}

static double slope_at(const Sum *sum, double time) {
    double total = 0.0;
    for (int64_t j = 0; j < sum->terms; j++) total += sum->rates[j] * sum->part[j] * exp(sum->rates[j] * time);
    return total;
}

/* The zero of a sum that falls from above zero at `low` to below it at `high`: the last time at or above zero. */
static double falling(const Sum *sum, double low, double high, double close) {
    double time = 0.5 * (low + high);
    while (high - low > close) {
        double value = value_at(sum, time), slope = slope_at(sum, time);
        if (value >= 0) low = time;
        else high = time;
        /* A little beyond Newton's end, so that the zero is enclosed from both sides. */
        time = slope < 0 ? time - value / slope + (value >= 0 ? OVERSHOOT : -OVERSHOOT) * close : low;
        if (!(low < time && time < high)) {
            time = 0.5 * (low + high);
            if (time <= low || time >= high) break;
        }
    }
    return low;
}

/* The first time at which a sum falls below zero, up to `arc`; infinite if it does not. */
static double zero_within(const Sum *sum, double arc) {
    double begins[OPEN], ends[OPEN], curved = 0.0, noise = 0.0, flat = 0.0;
    for (int64_t j = 0; j < sum->terms; j++) {
        double size = fabs(sum->part[j]), rate = sum->rates[j];
        noise += BEGUN * size;
        flat += BEGUN * fabs(rate + sum->lead) * size;
        curved += rate * rate * size;
    }
    int count = 1;
    begins[0] = 0.0, ends[0] = arc;
    while (count) {
        count--;
        double begin = begins[count], end = ends[count], length = end - begin;
        double value = value_at(sum, begin), slope = slope_at(sum, begin);
        if (sum->at_zero && begin == 0) value = slope >= -flat ? 0.0 : -noise;
        if (value < -noise || (value < 0 && slope < 0)) return begin;
        double ahead = value_at(sum, end), least = value < ahead ? value : ahead;
        /* A curve is at most an eighth of this below its chord, half of it below its tangent. Where that is rounding,
           there is no more to see between two ends that are not below zero. */
        double bent = curved * length * length;
        if (ahead >= 0 && (least >= 0.125 * bent || value + slope * length >= 0.5 * bent || bent <= noise)) continue;
        if (ahead < -noise && value > noise && slope + curved * length < 0)
            return falling(sum, begin, end, SHORTEST * arc);
        double middle = 0.5 * (begin + end);
        if (length <= SHORTEST * arc || count + 2 > OPEN) {
            if (ahead < -noise) return begin;
            continue;
        }
        begins[count] = middle, ends[count] = end;
        begins[count + 1] = begin, ends[count + 1] = middle;
        count += 2;
    }
    return INFINITY;
}

/* A sum as it is at some time, in units of its leading term there; only ratios matter. */
typedef struct {
    double value, size;
    double lead;  /* rate of that term */
    double least; /* of its coefficients, added up from the largest rate down */
    double safe;  /* how long it stays above zero at least, or as close to it as rounding is */
} Standing;

/* Σ_j c_j e^{s_j t} changes no faster than all |s_j c_j| e^{s_j t} together, which only fall: where rates are almost the
   same, that is next to nothing. Its terms now and their s go to `part`, (2, terms). */
static Standing stands(const double *rates, const double *parts, int64_t terms, double time, double *part) {
    Standing now = {0.0, 0.0, rates[0], INFINITY, INFINITY};
    double slope = 0.0;
    int64_t first = 0;
    while (first < terms - 1 && parts[first] == 0.0) first++;
    now.lead = rates[first];
    for (int64_t j = 0; j < terms; j++) {
        part[terms + j] = parts[j] == 0.0 ? 0.0 : rates[j] - now.lead;
        part[j] = parts[j] == 0.0 ? 0.0 : parts[j] * exp(part[terms + j] * time);
        now.value += part[j];
        now.size += fabs(part[j]);
        slope += fabs(part[terms + j] * part[j]);
        if (now.value < now.least) now.least = now.value;
    }
    const double noise = BEGUN * now.size;
    if (slope > 0.0) now.safe = largest(now.value - noise, noise) / slope;
    return now;
}

/* When one of some sums, which begin at or above zero, first falls below it, and which: −1 if none does within `room`;
   the time is then infinite if none ever does. A sum that begins at zero, up to rounding, begins there exactly. `part`
   (2, terms), `alive` and `begun` (sums) are room to work in; the number of arcs is added to `arcs`. */
PUBLIC double biasfree_first_zero(
    const double *rates, const double *parts, int64_t sums, int64_t terms, double room, double *part, uint8_t *alive,
    uint8_t *begun, int64_t *which, int64_t *arcs) {
    const double fastest = rates[0];
    double time = 0.0;
    *which = -1;
    for (int64_t i = 0; i < sums; i++) {
        const Standing now = stands(rates, parts + i * terms, terms, 0.0, part);
        alive[i] = now.size > 0, begun[i] = fabs(now.value) <= BEGUN * now.size;
    }
    for (;; ++*arcs) {
        double arc = fastest > 0 ? ARC / fastest : 0.0, found = INFINITY, safe = INFINITY;
        if (arc > room - time) arc = room - time;
        for (int64_t i = 0; i < sums; i++) {
            if (!alive[i]) continue;
            const Standing now = stands(rates, parts + i * terms, terms, time, part);
            const double noise = BEGUN * now.size;
            /* Positive from here on; rounding of a sum that begins at zero is none. */
            alive[i] = now.least + (begun[i] ? noise : 0.0) < 0;
            if (!alive[i]) continue;
            if (now.safe < safe) safe = now.safe;
            if (time >= room || fastest == 0 || (now.safe > arc && now.value > 2.0 * noise)) continue;
            const Sum sum = {part + terms, part, now.lead, terms, begun[i] && time == 0};
            double zero = zero_within(&sum, arc);
            if (zero < found) found = zero, *which = i;
        }
        if (found <= arc) return time + found;
        *which = -1;
        if (safe == INFINITY || fastest == 0) return INFINITY; /* no sum is left, or none that changes */
        if (time >= room) return room;
        time += largest(arc, smallest(safe, room - time));
    }
}
