/* Stages beside a pull that all neurons share (biasfree/dynamics/_shared_pull.py has the equations).

   A neuron's weights have parts tᵀw + uᵀv, which grow, and tᵀw − uᵀv, which shrink: `count` of each, filled up to fours
   by parts that are zero. */

#include "engine.h"

typedef struct {
    const double *inner, *outer;   /* (dim, count), (outputs, count): all t, all u */
    const double *inner_t;         /* (count, dim) */
    const double *rates;           /* (2 count) */
    double *room;                  /* (2 count) */
    int64_t width, dim, outputs, count;
} Pull;

/* to += Σ factors·rows: four columns at a time, of which a row has `count`. */
WITHIN void add_rows(const double *factors, int64_t step, const double *rows, int64_t number, int64_t count, double *to) {
    for (int64_t n = 0; n < count; n += 4) {
        double sums[4] = {0.0, 0.0, 0.0, 0.0};
        for (int64_t j = 0; j < number; j++)
            for (int64_t i = 0; i < 4; i++) sums[i] += factors[j * step] * rows[j * count + n + i];
        for (int64_t i = 0; i < 4; i++) to[n + i] += sums[i];
    }
}

/* The parts of one neuron. */
WITHIN void put_parts(const Pull *pull, const double *w, const double *v, double *to) {
    const int64_t count = pull->count;
    double *out = to + count;
    for (int64_t n = 0; n < 2 * count; n++) to[n] = 0.0;
    add_rows(w, 1, pull->inner, pull->dim, count, to);
    add_rows(v, pull->width, pull->outer, pull->outputs, count, out);
    for (int64_t n = 0; n < count; n++) {
        const double along = to[n];
        to[n] = along + out[n];
        out[n] = along - out[n];
    }
}

/* Add to one neuron what has such parts and nothing else. */
WITHIN void add_parts(const Pull *pull, const double *parts, double *w, double *v) {
    const int64_t count = pull->count, dim = pull->dim;
    for (int64_t n = 0; n < count; n++) {
        const double along = 0.5 * (parts[n] + parts[count + n]), out = 0.5 * (parts[n] - parts[count + n]);
        for (int64_t j = 0; j < dim; j++) w[j] += along * pull->inner_t[n * dim + j];
        for (int64_t k = 0; k < pull->outputs; k++) v[k * pull->width] += out * pull->outer[k * count + n];
    }
}

/* to = here + Σ weights·rows. */
WITHIN void put_sum(const double *here, const double *rows, const double *weights, int64_t number, int64_t size,
                    double *to) {
    memcpy(to, here, sizeof(double) * (size_t)size);
    for (int64_t s = 0; s < number; s++)
        for (int64_t i = 0; i < size; i++) to[i] += weights[s] * rows[s * size + i];
}

/* The parts of all neurons, (width, 2 count), of weights in a row. */
FOUR_AT_A_TIME PUBLIC void biasfree_pull_parts(const Pull *pull, const double *flat, double *to) {
    const double *v = flat + pull->width * pull->dim;
    for (int64_t h = 0; h < pull->width; h++) put_parts(pull, flat + h * pull->dim, v + h, to + 2 * pull->count * h);
}

/* here + Σ weights·stages, but for the parts, which are (begins + Σ weights·remaining)/back instead and go to
   `begun`. */
FOUR_AT_A_TIME PUBLIC void biasfree_pull_place(const Pull *pull, const double *here, const double *stages,
                                               const double *begins, const double *remaining, const double *weights,
                                               int64_t number, const double *back, double *begun, double *there) {
    const int64_t parts = 2 * pull->count;
    double *v = there + pull->width * pull->dim, *own = pull->room;
    put_sum(here, stages, weights, number, pull->width * (pull->dim + pull->outputs), there);
    put_sum(begins, remaining, weights, number, parts * pull->width, begun);
    for (int64_t h = 0; h < pull->width; h++) {
        double *w = there + h * pull->dim, *wanted = begun + h * parts;
        put_parts(pull, w, v + h, own);
        for (int64_t n = 0; n < parts; n++) {
            wanted[n] /= back[n];
            own[n] = wanted[n] - own[n];
        }
        add_parts(pull, own, w, v + h);
    }
}

/* What is left of a velocity's parts beside the pull, brought back. */
FOUR_AT_A_TIME PUBLIC void biasfree_pull_remaining(const Pull *pull, const double *moving, const double *begun,
                                                   const double *back, double *to) {
    const int64_t parts = 2 * pull->count;
    const double *v = moving + pull->width * pull->dim;
    for (int64_t h = 0; h < pull->width; h++) {
        double *own = to + h * parts;
        put_parts(pull, moving + h * pull->dim, v + h, own);
        for (int64_t n = 0; n < parts; n++) own[n] = (own[n] - pull->rates[n] * begun[h * parts + n]) * back[n];
    }
}
