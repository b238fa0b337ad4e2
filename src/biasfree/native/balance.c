/* What every neuron keeps: ‖w‖² − ‖v‖².

   A neuron that was pulled one way and is then pulled the other fades, w and v of one length to all digits, until what
   is left of its start turns it round and it grows again. All of that is in the difference of ‖w‖ and ‖v‖, of which
   float64 forgets as much as the square of how far the neuron fades. But the flow keeps the difference. So light
   rows, of which it is known, are put back on it after every step: that changes the growing part of a fading row, and
   neither its direction w/‖w‖ nor its lines. A row that stands for several neurons keeps what it had when they were
   merged. What may still be lost is told (biasfree/dynamics/exact/_balance.py). */

#include "engine.h"

/* Of the largest row, the size up to which a row is put back on its balance: what larger ones drift is a gauge of the
   run. Chosen: were it larger, that gauge would see less; were it smaller, rows would fade further before they are
   kept. */
#define KEPT 1e-3
#define ROUNDS 5e-16   /* what steps do to a row: wide seed 4897 in other axes has half of it */
/* A correction so large corrects nothing: it is right to first order. Chosen: its square, which it is off by, is a
   tenth. Were it smaller, rows that could be put back would drift. */
#define HARDLY_ONE 0.3

static void raise_to(double *value, double least) { *value = smallest(1.0, largest(*value, least)); }

/* One row; `now` and `since` are what decay has left of it since its root was found, and since its size was. */
static void keep_row(const Own *own, int64_t h, double now, double since, double largest_row, double *row, int64_t dim,
                     int64_t outputs) {
    double size = 0.0, one = 0.0, other = 0.0;
    for (int64_t j = 0; j < dim + outputs; j++) size = largest(size, fabs(row[j]));
    if (!(size > NOTHING && size < INFINITY)) return;
    const double unit = 1.0 / size, wanted = own->root[h] * now * unit;
    const double fading = own->size[h] * since * unit;
    own->size[h] = size;
    own->faded[h] = largest(1.0, own->faded[h] * fading);
    if (own->unkept[h] > 0.0) {
        own->unkept[h] = largest(1.0, own->unkept[h] * fading);
        raise_to(own->lost + h, ROUNDS * own->unkept[h] * own->unkept[h]);
    }
    if (dim > 1) raise_to(own->doubt + h, ROUNDS * own->faded[h]); /* of w in directions that are not pulled */
    if (size > KEPT * largest_row || wanted != wanted) return;     /* no number: the balance is not known */
    for (int64_t j = 0; j < dim; j++) one += (row[j] * unit) * (row[j] * unit);
    for (int64_t k = dim; k < dim + outputs; k++) other += (row[k] * unit) * (row[k] * unit);
    const double change = (wanted * fabs(wanted) - (one - other)) / (2.0 * (one + other));
    raise_to(own->doubt + h, change * change);
    if (!(fabs(change) < HARDLY_ONE)) return;
    for (int64_t j = 0; j < dim; j++) row[j] *= 1.0 + change;
    for (int64_t k = dim; k < dim + outputs; k++) row[k] *= 1.0 - change;
}

/* The active ones among some rows, all if none are named, some time after `own` was taken. */
void keep_balance(Own *own, double time, const Data *data, const Pattern *pattern, const int64_t *which, int64_t count,
                  double *rows) {
    const int64_t columns = data->dim + data->outputs;
    if (!own) return;
    const double then = own->began + time, now = exp(-own->decay * (then - own->made));
    const double since = exp(-own->decay * (then - own->seen));
    double most = which ? INFINITY : 0.0; /* those that are named are light */
    own->seen = then;
    for (int64_t i = 0; !which && i < pattern->active * columns; i++) most = largest(most, fabs(rows[i]));
    for (int64_t i = 0; i < (which ? count : pattern->active); i++) {
        const int64_t h = which ? which[i] : i;
        if (h < pattern->active) keep_row(own, h, now, since, most, rows + h * columns, data->dim, data->outputs);
    }
}

/* Whether a row has faded so far, its balance not kept, that its neurons must go by themselves. */
int has_faded(const Own *own, const Pattern *pattern) {
    for (int64_t h = 0; own && h < pattern->active; h++)
        if (own->unkept[h] > own->most) return 1;
    return 0;
}

/* The same where a piece ends; the largest part that may be lost of a row, in units of the largest one. */
PUBLIC double biasfree_keep_balance(Own *own, const Data *data, const Pattern *pattern, double *rows) {
    const int64_t columns = data->dim + data->outputs;
    double most = 0.0, lost = 0.0;
    keep_balance(own, 0.0, data, pattern, 0, 0, rows);
    for (int64_t i = 0; i < pattern->active * columns; i++) most = largest(most, fabs(rows[i]));
    for (int64_t i = 0; most > 0.0 && i < pattern->active * columns; i++) {
        const int64_t h = i / columns;
        lost = largest(lost, largest(own->lost[h], own->doubt[h]) * (fabs(rows[i]) / most));
    }
    return lost;
}
