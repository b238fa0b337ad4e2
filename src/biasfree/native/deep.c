/* Networks of any depth, so small that plain loops beat a library's products: the velocity of all weights, and the
   stages of a Runge-Kutta step.

   Weights lie one layer after the other, (out, in) each; signals have a row for each neuron and a column for each sample.
   The losses are those of field.c, with a line for each sample and the sample at 1 on it. */

#include "engine.h"

enum { DEEPEST_NETWORK = 64 };

typedef struct {
    const int64_t *widths, *rectified, *skips; /* (depth + 1), (depth), (depth); what follows the last layer is nothing */
    const double *inputs;                      /* (dim, samples) */
    double slope;
    int64_t depth, samples, size;              /* size: number of weights */
} Deep;

/* Where the parts of all layers are, in the room to work in. */
typedef struct {
    const double *weights[DEEPEST_NETWORK];
    double *moving[DEEPEST_NETWORK];
    double *signals[DEEPEST_NETWORK + 1], *arriving[DEEPEST_NETWORK + 1];
    double *loss; /* of field.c: (4 outputs + 1, samples) */
} Layout;

static Layout laid_out(const Deep *deep, const double *flat, double *moving, double *room) {
    Layout layout;
    for (int64_t l = 0, begin = 0; l < deep->depth; begin += deep->widths[l] * deep->widths[l + 1], l++) {
        layout.weights[l] = flat + begin;
        layout.moving[l] = moving + begin;
    }
    for (int64_t l = 0; l <= deep->depth; l++) {
        layout.signals[l] = room;
        layout.arriving[l] = room + deep->widths[l] * deep->samples;
        room += 2 * deep->widths[l] * deep->samples;
    }
    layout.loss = room;
    return layout;
}

static void add_rows(double factor, const double *from, double *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += factor * from[i];
}

/* A sum in four parts: it is four times as fast, and its order does not depend on the processor. */
static double inner(const double *one, const double *other, int64_t count) {
    double parts[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int n = 0; n < 4; n++) parts[n] += one[i + n] * other[i + n];
    for (; i < count; i++) parts[0] += one[i] * other[i];
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

/* What enters every layer, and the outputs last. */
static void pass_forward(const Deep *deep, const Layout *layout) {
    const int64_t samples = deep->samples;
    memcpy(layout->signals[0], deep->inputs, sizeof(double) * (size_t)(deep->widths[0] * samples));
    for (int64_t l = 0; l < deep->depth; l++) {
        const int64_t in = deep->widths[l], out = deep->widths[l + 1];
        double *h = layout->signals[l + 1];
        memset(h, 0, sizeof(double) * (size_t)(out * samples));
        for (int64_t i = 0; i < out; i++)
            for (int64_t j = 0; j < in; j++)
                add_rows(layout->weights[l][i * in + j], layout->signals[l] + j * samples, h + i * samples, samples);
        if (deep->skips[l]) add_rows(1.0, layout->signals[l + 1 - deep->skips[l]], h, out * samples);
        if (deep->rectified[l])
            for (int64_t i = 0; i < out * samples; i++) h[i] = h[i] > 0.0 ? h[i] : deep->slope * h[i];
    }
}

/* −∇L − λW from what arrives at the outputs, −∂L/∂f. */
static void pass_back(const Deep *deep, const Layout *layout, double decay) {
    const int64_t samples = deep->samples, depth = deep->depth;
    for (int64_t l = 1; l < depth; l++)
        memset(layout->arriving[l], 0, sizeof(double) * (size_t)(deep->widths[l] * samples));
    for (int64_t l = depth - 1; l >= 0; l--) {
        const int64_t in = deep->widths[l], out = deep->widths[l + 1], span = deep->skips[l];
        const double *weights = layout->weights[l], *signal = layout->signals[l + 1];
        double *back = layout->arriving[l + 1];
        if (deep->rectified[l]) /* σ(h) has the sign of h, and σ'(0) is the slope */
            for (int64_t i = 0; i < out * samples; i++) back[i] *= signal[i] > 0.0 ? 1.0 : deep->slope;
        for (int64_t i = 0; i < out; i++)
            for (int64_t j = 0; j < in; j++) {
                layout->moving[l][i * in + j] =
                    inner(back + i * samples, layout->signals[l] + j * samples, samples) - decay * weights[i * in + j];
                if (l) add_rows(weights[i * in + j], back + i * samples, layout->arriving[l] + j * samples, samples);
            }
        if (span && l + 1 - span) add_rows(1.0, back, layout->arriving[l + 1 - span], out * samples);
    }
}

/* DW/dt of all weights, or dW/ds on the loss clock. */
PUBLIC void biasfree_deep_velocity(const Deep *deep, const Data *data, const double *flat, double *moving, double *room) {
    const Layout layout = laid_out(deep, flat, moving, room);
    const size_t outputs = sizeof(double) * (size_t)(data->outputs * deep->samples);
    pass_forward(deep, &layout);
    memcpy(layout.loss, layout.signals[deep->depth], outputs);
    memset(layout.loss + data->outputs * deep->samples, 0, outputs);
    const double level = data->by_loss ? log_loss(layout.loss, data) : 0.0;
    pulls(layout.loss, data, level);
    memcpy(layout.arriving[deep->depth], layout.loss, outputs);
    pass_back(deep, &layout, data->decay > 0.0 ? data->decay * exp(-level) : 0.0);
}

/* All stages of a step of this length from weights `here`, whose velocity is the first of them; `there` is its end, and
   the last stage the velocity there. */
PUBLIC void biasfree_deep_stages(const Deep *deep, const Data *data, const double *here, double length, const double *a,
                                 const double *b, int64_t count, double *stages, double *there, double *room) {
    const int64_t size = deep->size;
    for (int64_t s = 1; s <= count; s++) {
        const double *parts = s < count ? a + s * count : b;
        memset(there, 0, sizeof(double) * (size_t)size);
        for (int64_t n = 0; n < s; n++)
            if (parts[n] != 0.0) add_rows(parts[n], stages + n * size, there, size);
        for (int64_t i = 0; i < size; i++) there[i] = here[i] + length * there[i];
        biasfree_deep_velocity(deep, data, there, stages + s * size, room);
    }
}
