/* The first zero of sums of exponentials.

   Σ_j c_j e^{r_j t}, rates falling, stays positive for ever if its coefficients, added up from the largest rate down,
   stay positive (summation by parts). Where they do not, a time without zeros follows from the value, the slope and a
   bound on the second derivative. Times are halved until they are such, or until the sum can only fall within them: its
   zero is then found by Newton's steps, held inside by halving. */

#include "engine.h"

/* E-folds of the fastest mode that are searched at once. Chosen: the bound on the second derivative is e times too
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
    const double *rates, *part;
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
        flat += BEGUN * fabs(rate) * size;
        curved += rate * rate * size * exp(rate > 0 ? rate * arc : 0.0);
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
        /* A curve is at most an eighth of this below its chord, half of it below its tangent. */
        double bent = curved * length * length;
        if (ahead >= 0 && (least >= 0.125 * bent || value + slope * length >= 0.5 * bent)) continue;
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

/* When one of some sums, which begin at or above zero, first falls below it, and which: −1 if none does within `room`;
   the time is then infinite if none ever does. A sum that begins at zero, up to rounding, begins there exactly. `part`
   (terms), `alive` and `begun` (sums) are room to work in. */
PUBLIC double biasfree_first_zero(
    const double *rates, const double *parts, int64_t sums, int64_t terms, double room, double *part, uint8_t *alive,
    uint8_t *begun, int64_t *which) {
    *which = -1;
    for (int64_t i = 0; i < sums; i++) {
        double size = 0.0, total = 0.0;
        for (int64_t j = 0; j < terms; j++) {
            size += fabs(parts[i * terms + j]);
            total += parts[i * terms + j];
        }
        alive[i] = size > 0, begun[i] = fabs(total) <= BEGUN * size;
    }
    double time = 0.0, fastest = rates[0];
    for (;;) {
        double arc = fastest > 0 ? ARC / fastest : 0.0, found = INFINITY;
        int left = 0;
        if (arc > room - time) arc = room - time;
        *which = -1;
        for (int64_t i = 0; i < sums; i++) {
            if (!alive[i]) continue;
            double total = 0.0, size = 0.0, least = INFINITY;
            for (int64_t j = 0; j < terms; j++) {
                part[j] = parts[i * terms + j] * exp((rates[j] - fastest) * time); /* only ratios matter */
                total += part[j];
                size += fabs(part[j]);
                if (total < least) least = total;
            }
            /* Positive from here on; rounding of a sum that begins at zero is none. */
            alive[i] = least + (begun[i] ? BEGUN * size : 0.0) < 0;
            if (!alive[i]) continue;
            left = 1;
            if (time >= room || fastest == 0) continue;
            Sum sum = {rates, part, terms, begun[i] && time == 0};
            double zero = zero_within(&sum, arc);
            if (zero < found) found = zero, *which = i;
        }
        if (!left || fastest == 0) {
            *which = -1;
            return INFINITY;
        }
        if (time >= room) return room;
        if (found <= arc) return time + found;
        time += arc;
    }
}
