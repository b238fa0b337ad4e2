/* The loss, and what its residuals pull with, from what the lines put out. */

#include "engine.h"

#define FAR_BELOW (-18.0) /* the next term of ln ln(1 + e^z) = z − e^z/2 + 5e^2z/24 is 5e-17 there, below rounding */
#define FAR_ABOVE 30.0    /* what ln z lacks of it is e^−z/z, 3e-15 there; e^z is no number from 710 on */

/* ln ln(1 + e^z); where e^z is lost beside 1 it is z − e^z/2 to double precision. */
static double log_softplus(double z) {
    if (z < FAR_BELOW) return z - 0.5 * exp(z);
    return z < FAR_ABOVE ? log(log1p(exp(z))) : log(z);
}

static inline double output(const double *work, const Data *data, int64_t k, int64_t line, double t) {
    return t * work[k * data->lines + line] + fabs(t) * work[(data->outputs + k) * data->lines + line];
}

typedef struct {
    int64_t first;
    double most, others, whole;
} Rivals;

/* Which output of a sample is the largest, its value, and ln Σe^f of all others and of all. */
static Rivals rivals_of(const double *work, const Data *data, int64_t line, double t) {
    int64_t first = 0;
    double most = -INFINITY, second = -INFINITY, total = 0.0;
    for (int64_t k = 0; k < data->outputs; k++) {
        const double f = output(work, data, k, line, t);
        if (f > most) {
            first = k;
            second = most;
            most = f;
        } else {
            second = largest(second, f);
        }
    }
    for (int64_t k = 0; k < data->outputs; k++)
        if (k != first) total += exp(output(work, data, k, line, t) - second);
    const double others = second + log(total);
    return (Rivals){first, most, others, largest(most, others) + log1p(exp(-fabs(most - others)))};
}

/* ln of the probability that a class of output f has not; `leads`: its output is the largest. */
static double log_wrong(double f, int leads, const Rivals *rivals) {
    return leads ? rivals->others - rivals->whole : log1p(-exp(f - rivals->whole));
}

/* ln ℓ of one output of a sample, less what the number of samples makes of it. */
static double log_part(double f, double y, int64_t k, const Data *data, const Rivals *rivals) {
    if (data->loss == EXPONENTIAL) return -y * f;
    if (data->loss == LOGISTIC) return log_softplus(-y * f);
    return log(y) + log_softplus(log_wrong(f, k == rivals->first, rivals) - (f - rivals->whole));
}

/* ln L from what the lines put out; NaN stays NaN. */
double log_loss(const double *work, const Data *data) {
    double total = data->offset, top = data->offset > 0.0 ? log(data->offset) : -INFINITY;
    Rivals rivals = {0, 0.0, 0.0, 0.0};
    if (data->loss == SQUARE) {
        for (int64_t line = 0; line < data->lines; line++)
            for (int64_t i = data->begin[line]; i < data->begin[line + 1]; i++)
                for (int64_t k = 0; k < data->outputs; k++) {
                    const double error =
                        data->target[i * data->outputs + k] - output(work, data, k, line, data->position[i]);
                    total += 0.5 * error * error;
                }
        return total == 0.0 ? -INFINITY : log(total / data->samples);
    }
    if (data->offset > 0.0) total = 1.0; /* the sum in units of its largest term, e^top */
    for (int64_t line = 0; line < data->lines; line++)
        for (int64_t i = data->begin[line]; i < data->begin[line + 1]; i++) {
            const double t = data->position[i];
            if (data->loss == CROSS_ENTROPY) rivals = rivals_of(work, data, line, t);
            for (int64_t k = 0; k < data->outputs; k++) {
                const double f = output(work, data, k, line, t), y = data->target[i * data->outputs + k];
                if (f != f) return NAN;
                if (data->loss == CROSS_ENTROPY && y == 0.0) continue;
                const double part = log_part(f, y, k, data, &rivals);
                if (part > top) {
                    total = 1.0 + (top > -INFINITY ? total * exp(top - part) : 0.0);
                    top = part;
                } else if (part > -INFINITY) {
                    total += exp(part - top);
                }
            }
        }
    return top + log(total / data->samples);
}

/* −∂ℓ/∂f of one output of a sample; on the loss clock divided by L, whose logarithm is `shift`. */
static double residual_of(double f, double y, int64_t k, const Data *data, const Rivals *rivals, double shift) {
    if (data->loss == CROSS_ENTROPY) {
        double residual = y == 0.0 ? 0.0 : y * exp(log_wrong(f, k == rivals->first, rivals) - shift);
        if (y != 1.0) residual -= (1.0 - y) * exp(f - rivals->whole - shift);
        return residual;
    }
    double margin = y * f;
    if (data->loss == LOGISTIC) margin = largest(margin, 0.0) + log1p(exp(-fabs(margin))); /* ln σ(−m) = −softplus(m) */
    return y * exp(-margin - shift);
}

/* The same of all classes of a sample on the time clock, where probabilities may underflow: y − p, exact also for the
   class whose probability is close to 1. */
static void class_residuals(const double *work, const Data *data, int64_t line, double t, const double *y,
                            double *residual) {
    int64_t first = 0;
    double others = 0.0;
    for (int64_t k = 0; k < data->outputs; k++) {
        residual[k] = output(work, data, k, line, t);
        if (residual[k] > residual[first]) first = k;
    }
    const double most = residual[first];
    for (int64_t k = 0; k < data->outputs; k++) {
        residual[k] = exp(residual[k] - most);
        if (k != first) others += residual[k];
    }
    const double each = 1.0 / (1.0 + others);
    for (int64_t k = 0; k < data->outputs; k++) residual[k] = y[k] - each * residual[k];
    residual[first] = each * (y[first] * others - (1.0 - y[first]));
}

static void square_pulls(double *work, const Data *data) {
    const int64_t lines = data->lines, outputs = data->outputs;
    const double *square = data->powers, *mixed = data->powers + lines;
    for (int64_t k = 0; k < outputs; k++) {
        double *p = work + k * lines, *q = work + (outputs + k) * lines;
        const double *odd = data->sums + k * lines, *bent = data->sums + (outputs + k) * lines;
        for (int64_t line = 0; line < lines; line++) {
            const double lin = p[line], even = q[line];
            p[line] = data->a * (odd[line] - lin * square[line] - even * mixed[line]) / data->samples;
            q[line] = data->b * (bent[line] - lin * mixed[line] - even * square[line]) / data->samples;
        }
    }
}

/* Overwrite lin and even by p and q; on the loss clock `shift` is ln L. The number after them becomes the size that
   they are differences of: Σ|et|/P, or of square loss, whose residuals are differences themselves, Σ|ty|/P. */
void pulls(double *work, const Data *data, double shift) {
    const int64_t lines = data->lines, outputs = data->outputs;
    double *sums = work + (2 * outputs + 1) * lines, mass = 0.0;
    Rivals rivals = {0, 0.0, 0.0, 0.0};
    if (lines == 0) return;
    if (data->loss == SQUARE) {
        square_pulls(work, data);
        work[2 * outputs * lines] = data->mass;
        return;
    }
    memset(sums, 0, sizeof(double) * (size_t)(2 * outputs * lines));
    const int at_once = data->loss == CROSS_ENTROPY && !data->by_loss && outputs <= MOST_OUTPUTS;
    for (int64_t line = 0; line < lines; line++)
        for (int64_t i = data->begin[line]; i < data->begin[line + 1]; i++) {
            const double t = data->position[i], *y = data->target + i * outputs;
            double all[MOST_OUTPUTS];
            if (at_once)
                class_residuals(work, data, line, t, y, all);
            else if (data->loss == CROSS_ENTROPY)
                rivals = rivals_of(work, data, line, t);
            for (int64_t k = 0; k < outputs; k++) {
                const double residual =
                    at_once ? all[k] : residual_of(output(work, data, k, line, t), y[k], k, data, &rivals, shift);
                sums[k * lines + line] += residual * t;
                sums[(outputs + k) * lines + line] += residual * fabs(t);
                mass += fabs(residual * t);
            }
        }
    work[2 * outputs * lines] = mass / data->samples;
    for (int64_t i = 0; i < outputs * lines; i++) {
        work[i] = data->a * sums[i] / data->samples;
        work[outputs * lines + i] = data->b * sums[outputs * lines + i] / data->samples;
    }
}

/* q of all outputs on one line, at rows `z`; on the loss clock `shift` is ln L. */
void bent_pull(const double *z, const Data *data, const double *side, int64_t active, int64_t line, double shift,
               double *work, double *q) {
    const int64_t lines = data->lines, outputs = data->outputs, dim = data->dim;
    Rivals rivals = {0, 0.0, 0.0, 0.0};
    for (int64_t k = 0; k < outputs; k++) work[k * lines + line] = work[(outputs + k) * lines + line] = q[k] = 0.0;
    for (int64_t h = 0; h < active; h++) {
        const double *row = z + h * (dim + outputs);
        double along = 0.0;
        for (int64_t j = 0; j < dim; j++) along += row[j] * data->transposed[j * lines + line];
        for (int64_t k = 0; k < outputs; k++) {
            work[k * lines + line] += data->a * row[dim + k] * along;
            work[(outputs + k) * lines + line] += data->b * row[dim + k] * side[h * lines + line] * along;
        }
    }
    for (int64_t i = data->begin[line]; i < data->begin[line + 1]; i++) {
        const double t = data->position[i];
        if (data->loss == CROSS_ENTROPY) rivals = rivals_of(work, data, line, t);
        for (int64_t k = 0; k < outputs; k++) {
            const double f = output(work, data, k, line, t), y = data->target[i * outputs + k];
            const double residual = data->loss == SQUARE ? y - f : residual_of(f, y, k, data, &rivals, shift);
            q[k] += data->b * residual * fabs(t) / data->samples;
        }
    }
}
