/* Networks of any depth, so small that plain loops beat a library's products: the velocity of all weights, and the
   stages of a Runge-Kutta step.

   Weights lie one layer after the other, (out, in) each; signals have a row for each neuron and a column for each
   sample. The losses are those of losses.c, with a line for each sample and the sample at 1 on it. */

#include "engine.h"

/* Layers that a layout has room for. Chosen: 2 KB of pointers; deeper networks are left to Python
   (_vector_field.py). */
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
    double *loss; /* what losses.c works in: (4 outputs + 1, samples) */
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

WITHIN void add_rows(double factor, const double *from, double *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += factor * from[i];
}

/* A sum in eight parts: none waits for the one before, and the order does not depend on the processor. */
WITHIN double inner(const double *one, const double *other, int64_t count) {
    double parts[8] = {0.0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int n = 0; n < 8; n++) parts[n] += one[i + n] * other[i + n];
    for (; i < count; i++) parts[i % 8] += one[i] * other[i];
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

/* What enters every layer, and the outputs last. */
FOUR_AT_A_TIME static void pass_forward(const Deep *deep, const Layout *layout) {
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
FOUR_AT_A_TIME static void pass_back(const Deep *deep, const Layout *layout, double decay) {
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

/* ln L where the last velocity was taken: its outputs are still in the room. */
PUBLIC double biasfree_deep_level(const Deep *deep, const Data *data, double *room) {
    const Layout layout = laid_out(deep, 0, 0, room);
    const size_t outputs = sizeof(double) * (size_t)(data->outputs * deep->samples);
    memcpy(layout.loss, layout.signals[deep->depth], outputs);
    memset(layout.loss + data->outputs * deep->samples, 0, outputs);
    return log_loss(layout.loss, data);
}

/* For each weight the smaller of the sizes of the two neurons it joins (_error_norm.py), and ‖W_l‖² of every layer.
   `hidden` is room for a number for each neuron. */
PUBLIC void biasfree_deep_sizes(const int64_t *widths, int64_t depth, const double *flat, double *sizes, double *norms,
                                double *hidden) {
    const double *weights = flat;
    double *before = 0, *after = hidden; /* of the layer that enters, and of the one that leaves */
    int64_t neurons = 0;
    for (int64_t l = 1; l < depth; l++) neurons += widths[l];
    memset(hidden, 0, sizeof(double) * (size_t)neurons);
    for (int64_t l = 0; l < depth; weights += widths[l] * widths[l + 1], l++) {
        const int64_t in = widths[l], out = widths[l + 1];
        norms[l] = 0.0;
        for (int64_t i = 0; i < out; i++) {
            double total = 0.0;
            for (int64_t j = 0; j < in; j++) {
                const double square = weights[i * in + j] * weights[i * in + j];
                total += square;
                if (before) before[j] += square / (double)out;
            }
            norms[l] += total;
            if (l + 1 < depth) after[i] += total / (double)in;
        }
        before = after;
        after += out;
    }
    for (int64_t h = 0; h < neurons; h++) hidden[h] = sqrt(hidden[h]);
    before = 0;
    after = hidden;
    for (int64_t l = 0; l < depth; l++) {
        const int64_t in = widths[l], out = widths[l + 1];
        const double alone = sqrt(norms[l] / (double)(in * out)); /* of a network of one layer */
        for (int64_t i = 0; i < out; i++)
            for (int64_t j = 0; j < in; j++) {
                double size = l + 1 < depth ? after[i] : INFINITY;
                if (before) size = smallest(size, before[j]);
                *sizes++ = depth > 1 ? size : alone;
            }
        before = after;
        after += out;
    }
}

/* The root mean square of a step's error, divided by its length, in units of its tolerance (_error_norm.py). */
PUBLIC double biasfree_deep_error(int64_t size, int64_t count, const double *stages, const double *error,
                                  const double *second, const double *here, const double *there, const double *sizes,
                                  double atol, double rtol) {
    double total = 0.0;
    for (int64_t i = 0; i < size; i++) {
        double one = 0.0, other = 0.0;
        for (int64_t s = 0; s <= count; s++) one += error[s] * stages[s * size + i];
        if (second) {
            for (int64_t s = 0; s <= count; s++) other += second[s] * stages[s * size + i];
            one = one * one / sqrt(largest(one * one + LOWER_SQUARED * other * other, TINY));
        }
        const double scale = largest(largest(fabs(here[i]), fabs(there[i])), sizes[i]);
        const double ratio = one / (atol + rtol * scale);
        total += ratio * ratio;
    }
    return sqrt(total / (double)size);
}
