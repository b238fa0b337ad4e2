/* The velocity of all rows with their sides held, and the loss. */

#include "engine.h"

Tables TABLES;

enum { FEW = 16 }; /* lines and inputs whose sums stay in registers */

PUBLIC void biasfree_tables(const Tables *tables) { TABLES = *tables; }

/* `width` sides from a place on of so many in all, as the first of four; others, if there are any, are read along. */
WITHIN void read_sides(const double *side, int64_t place, int64_t width, int64_t all, Four *own) {
    if (place + 4 <= all)
        *own = *(const Four *)(side + place);
    else
        for (int64_t i = 0; i < width; i++) (*own)[i] = side[place + i];
}

/* lin_l and even_l where there are few columns and one output: four lines at a time, whose sums stay in registers.
   (Here and below `dim` and `outputs` are arguments, so that loops are unrolled where the caller knows them: in the
   plane, with one output.) */
WITHIN void some_outputs(const double *z, const Data *data, const double *side, int64_t active, double *work,
                         int64_t dim) {
    const int64_t lines = data->lines;
    for (int64_t first = 0; first < lines; first += 4) {
        const int64_t width = lines - first < 4 ? lines - first : 4;
        Four directions[FEW], own = {0.0}, lin = own, even = own;
        for (int64_t j = 0; j < dim; j++) {
            directions[j] = lin;
            for (int64_t i = 0; i < width; i++) directions[j][i] = data->transposed[j * lines + first + i];
        }
        for (int64_t h = 0; h < active; h++) {
            const double *row = z + h * (dim + 1);
            read_sides(side, h * lines + first, width, active * lines, &own);
            Four along = row[0] * directions[0];
            for (int64_t j = 1; j < dim; j++) along += row[j] * directions[j];
            lin += data->a * row[dim] * along;
            even += data->b * row[dim] * own * along;
        }
        for (int64_t i = 0; i < width; i++) {
            work[first + i] = lin[i];
            work[lines + first + i] = even[i];
        }
    }
}

FOUR_AT_A_TIME static void few_outputs(const double *z, const Data *data, const double *side, int64_t active,
                                       double *work) {
    if (data->dim == 2)
        some_outputs(z, data, side, active, work, 2);
    else
        some_outputs(z, data, side, active, work, data->dim);
}

/* lin_l and even_l of all outputs, (outputs, lines) each, to the first rows of `work`; the row after them is used up. */
void outputs_of(const double *z, const Data *data, const double *side, int64_t active, double *work) {
    const int64_t dim = data->dim, lines = data->lines, outputs = data->outputs, columns = dim + outputs;
    double *along = work + 2 * outputs * lines;
    memset(work, 0, sizeof(double) * (size_t)(2 * outputs * lines));
    if (data->b == 0.0) { /* no kinks: all comes from the sum of v wᵀ */
        for (int64_t k = 0; k < outputs; k++)
            for (int64_t j = 0; j < dim; j++) {
                double total = 0.0;
                for (int64_t h = 0; h < active; h++) total += data->a * z[h * columns + dim + k] * z[h * columns + j];
                for (int64_t line = 0; line < lines; line++)
                    work[k * lines + line] += total * data->transposed[j * lines + line];
            }
        return;
    }
    if (outputs == 1 && lines <= FEW && dim <= FEW) {
        few_outputs(z, data, side, active, work);
        return;
    }
    for (int64_t h = 0; h < active; h++) {
        const double *row = z + h * columns, *own = side + h * lines;
        for (int64_t line = 0; line < lines; line++) along[line] = row[0] * data->transposed[line];
        for (int64_t j = 1; j < dim; j++)
            for (int64_t line = 0; line < lines; line++) along[line] += row[j] * data->transposed[j * lines + line];
        for (int64_t k = 0; k < outputs; k++) {
            const double odd = data->a * row[dim + k], bent = data->b * row[dim + k];
            double *lin = work + k * lines, *even = work + (outputs + k) * lines;
            for (int64_t line = 0; line < lines; line++) {
                lin[line] += odd * along[line];
                even[line] += bent * own[line] * along[line];
            }
        }
    }
}

/* Pulls that are given as a curve, at x; and the size that they are differences of, as `pulls` leaves it. */
void given_pulls(const Data *data, double x, double *work) {
    const int64_t size = 2 * data->outputs * data->lines;
    double weights[NODES];
    bernstein(x, weights);
    memset(work, 0, sizeof(double) * (size_t)size);
    work[size] = data->mass;
    for (int n = 0; n < NODES; n++)
        for (int64_t i = 0; i < size; i++) work[i] += weights[n] * data->given[n * size + i];
}

/* ln ln(1 + e^z); where e^z is lost beside 1 it is z − e^z/2 to double precision. */
static double log_softplus(double z) {
    if (z < -18.0) return z - 0.5 * exp(z);
    return z < 30.0 ? log(log1p(exp(z))) : log(z);
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

/* Overwrite lin and even by p and q; on the loss clock `shift` is ln L. The number after them becomes the size that they
   are differences of: Σ|et|/P, or of square loss, whose residuals are differences themselves, Σ|ty|/P. */
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

/* p and q at rows `z`; ln L where the clock or the loss needs it, else 0. */
double pulls_here(const double *z, const Data *data, const Pattern *pattern, double *work) {
    outputs_of(z, data, pattern->side, pattern->active, work);
    const double level = data->by_loss ? log_loss(work, data) : 0.0;
    pulls(work, data, level);
    return level;
}

/* M_h = Σ_l d_l (p_l + ς_hl q_l)ᵀ of the active rows, whose sides are given. */
static inline void gather(const double *work, const Data *data, const double *sides, int64_t active, double *pull,
                          int64_t dim, int64_t outputs) {
    const int64_t lines = data->lines;
    for (int64_t h = 0; h < active; h++) {
        double *own = pull + h * dim * outputs;
        if (data->b == 0.0 && h > 0) { /* without kinks all rows are pulled alike */
            memcpy(own, pull, sizeof(double) * (size_t)(dim * outputs));
            continue;
        }
        const double *side = sides + h * lines;
        for (int64_t k = 0; k < outputs; k++) {
            const double *p = work + k * lines, *q = work + (outputs + k) * lines;
            for (int64_t j = 0; j < dim; j++) {
                const double *d = data->transposed + j * lines;
                double total = 0.0;
                for (int64_t line = 0; line < lines; line++) total += (p[line] + side[line] * q[line]) * d[line];
                own[j * outputs + k] = total;
            }
        }
    }
}

/* The same where there are few columns and one output: four lines at a time, summed in order. */
WITHIN void gather_few(const double *work, const Data *data, const double *sides, int64_t active, double *pull,
                       int64_t dim) {
    const int64_t lines = data->lines;
    memset(pull, 0, sizeof(double) * (size_t)(active * dim));
    for (int64_t first = 0; first < lines; first += 4) {
        const int64_t width = lines - first < 4 ? lines - first : 4;
        Four directions[FEW], p = {0.0}, q = p, own = p;
        for (int64_t i = 0; i < width; i++) {
            p[i] = work[first + i];
            q[i] = work[lines + first + i];
            for (int64_t j = 0; j < dim; j++) directions[j][i] = data->transposed[j * lines + first + i];
        }
        for (int64_t h = 0; h < active; h++) {
            read_sides(sides, h * lines + first, width, active * lines, &own);
            const Four each = p + own * q;
            for (int64_t j = 0; j < dim; j++) {
                const Four parts = each * directions[j];
                double total = pull[h * dim + j];
                for (int64_t i = 0; i < width; i++) total += parts[i];
                pull[h * dim + j] = total;
            }
        }
    }
}

FOUR_AT_A_TIME static void few_pulls(const double *work, const Data *data, const double *sides, int64_t active,
                                     double *pull) {
    if (data->dim == 2)
        gather_few(work, data, sides, active, pull, 2);
    else
        gather_few(work, data, sides, active, pull, data->dim);
}

static void gathered(const double *work, const Data *data, const double *sides, int64_t active, double *pull) {
    if (data->outputs == 1 && data->b != 0.0 && data->lines <= FEW && data->dim <= FEW)
        few_pulls(work, data, sides, active, pull);
    else
        gather(work, data, sides, active, pull, data->dim, data->outputs);
}

/* M_h from the form of a pattern. */
static void by_form(const double *z, const Data *data, const Pattern *pattern, const Form *form, double *pull) {
    const int64_t dim = data->dim, outputs = data->outputs, active = pattern->active, size = active * dim;
    for (int64_t entry = 0; entry < size; entry++) {
        for (int64_t k = 0; k < outputs; k++) pull[entry * outputs + k] = form->constant[entry * outputs + k];
        for (int64_t other = 0; other < active; other++) {
            const double *row = z + other * (dim + outputs), *block = form->matrix + entry * size + other * dim;
            double inner = 0.0;
            for (int64_t i = 0; i < dim; i++) inner += block[i] * row[i];
            for (int64_t k = 0; k < outputs; k++) pull[entry * outputs + k] -= inner * row[dim + k];
        }
    }
}

/* Change a form, in place, after row h has changed sides on a line, by multiples of d dᵀ; the pattern has the new side. */
void turn_form(const Form *form, const Data *data, const Pattern *pattern, int64_t h, int64_t line) {
    const int64_t dim = data->dim, lines = data->lines, outputs = data->outputs, size = pattern->active * dim;
    const double turned = 2.0 * pattern->side[h * lines + line] * data->b / data->samples;
    const double square = data->powers[line], mixed = data->powers[lines + line];
    for (int64_t j = 0; j < dim; j++) {
        const double d = turned * data->transposed[j * lines + line];
        for (int64_t k = 0; k < outputs; k++)
            form->constant[(h * dim + j) * outputs + k] += d * data->sums[(outputs + k) * lines + line];
        for (int64_t other = 0; other < pattern->active; other++) {
            const double own = data->b * pattern->side[other * lines + line] * square + data->a * mixed;
            const double change = d * (other == h ? 2.0 * data->a * mixed : own); /* ς_h² does not change */
            for (int64_t i = 0; i < dim; i++) {
                const double part = change * data->transposed[i * lines + line];
                form->matrix[(h * dim + j) * size + other * dim + i] += part;
                if (other != h) form->matrix[(other * dim + i) * size + h * dim + j] += part;
            }
        }
    }
}

PUBLIC void biasfree_turn(const Form *form, const Data *data, const Pattern *pattern, int64_t h, int64_t line) {
    turn_form(form, data, pattern, h, line);
}

/* M of a row alone, which is given as a curve, at x. */
static void pulled(const double *coefficients, double x, int64_t size, double *pull) {
    double weights[NODES];
    bernstein(x, weights);
    for (int64_t i = 0; i < size; i++) {
        double total = 0.0;
        for (int n = 0; n < NODES; n++) total += weights[n] * coefficients[n * size + i];
        pull[i] = total;
    }
}

/* Take out of every M what lies along the lines its row slides on. */
static inline void projected(const Pattern *pattern, int64_t dim, int64_t outputs, double *pull) {
    for (int64_t h = 0; h < pattern->active; h++) {
        double *own = pull + h * dim * outputs;
        if (pattern->span[h] == 0) continue;
        for (int twice = 0; twice < 2; twice++) /* what rounding leaves of a large pull adds up */
            for (int64_t s = 0; s < pattern->span[h]; s++) {
                const double *along = pattern->basis + (h * pattern->room + s) * dim;
                for (int64_t k = 0; k < outputs; k++) {
                    double part = 0.0;
                    for (int64_t j = 0; j < dim; j++) part += own[j * outputs + k] * along[j];
                    for (int64_t j = 0; j < dim; j++) own[j * outputs + k] -= part * along[j];
                }
            }
    }
}

/* The velocity of all rows at `z` from the pulls on the active ones, to `stage`; the squared speed of these. */
static inline double moved(const double *z, const Pattern *pattern, double decay, const double *pulls, double *stage,
                           int64_t dim, int64_t outputs) {
    const int64_t columns = dim + outputs;
    double power = 0.0;
    for (int64_t row = 0; row < pattern->rows; row++) {
        const double *pull = pulls + pattern->owner[row] * dim * outputs, *w = z + row * columns, *v = w + dim;
        double *out = stage + row * columns;
        for (int64_t j = 0; j < dim; j++) {
            double total = -decay * w[j];
            for (int64_t k = 0; k < outputs; k++) total += pull[j * outputs + k] * v[k];
            out[j] = total;
        }
        for (int64_t k = 0; k < outputs; k++) {
            double total = -decay * v[k];
            for (int64_t i = 0; i < dim; i++) total += pull[i * outputs + k] * w[i];
            out[dim + k] = total;
        }
        if (row < pattern->active)
            for (int64_t j = 0; j < columns; j++) power += out[j] * out[j];
    }
    return power;
}

/* M of the active rows at `z`, without what they slide on, to the desk; the decay. */
double pulls_on_rows(const double *z, const Data *data, const Pattern *pattern, const Desk *desk) {
    const double shift = pulls_here(z, data, pattern, desk->work);
    gathered(desk->work, data, pattern->side, pattern->active, desk->pull);
    if (data->dim == 2 && data->outputs == 1)
        projected(pattern, 2, 1, desk->pull);
    else
        projected(pattern, data->dim, data->outputs, desk->pull);
    return data->decay > 0.0 ? data->decay * exp(-shift) : 0.0;
}

/* Write the velocity of all rows at the desk's place to `stage`; the squared speed of the active ones. */
double velocity(const Data *data, const Pattern *pattern, const Form *form, double time, const Desk *desk,
                double *stage) {
    const int64_t dim = data->dim, outputs = data->outputs;
    const double *z = desk->rows + PLACE * pattern->rows * (dim + outputs);
    double decay = data->decay;
    if (data->gives || form->used) {
        if (data->gives)
            pulled(form->constant, data->given_at + data->given_rate * time, dim * outputs, desk->pull);
        else
            by_form(z, data, pattern, form, desk->pull);
        projected(pattern, dim, outputs, desk->pull);
    } else {
        decay = pulls_on_rows(z, data, pattern, desk);
    }
    if (dim == 2 && outputs == 1) return moved(z, pattern, decay, desk->pull, stage, 2, 1);
    if (outputs == 1) return moved(z, pattern, decay, desk->pull, stage, dim, 1);
    return moved(z, pattern, decay, desk->pull, stage, dim, outputs);
}

/* ln L of several states `z`, (states, rows, columns), with the sides that their active rows have there; `side` and `work` are
   room for (active, lines) and (4 outputs + 1, lines). */
PUBLIC void biasfree_levels(int64_t states, const double *z, int64_t rows, int64_t active, const Data *data, double *side,
                            double *work, double *levels) {
    const int64_t columns = data->dim + data->outputs, lines = data->lines;
    for (int64_t n = 0; n < states; n++, z += rows * columns) {
        for (int64_t h = 0; h < active; h++) {
            double *own = side + h * lines;
            memset(own, 0, sizeof(double) * (size_t)lines);
            for (int64_t j = 0; j < data->dim; j++) {
                const double w = z[h * columns + j], *d = data->transposed + j * lines;
                for (int64_t line = 0; line < lines; line++) own[line] += w * d[line];
            }
            for (int64_t line = 0; line < lines; line++) own[line] = own[line] < 0.0 ? -1.0 : 1.0;
        }
        outputs_of(z, data, side, active, work);
        levels[n] = log_loss(work, data);
    }
}

/* ln L, p, q, the size that these are differences of, and M of the active rows, what they slide on included, of several
   states `z`, (states, rows, columns), with given sides; `work` as above. */
PUBLIC void biasfree_pulls_of(int64_t states, const double *z, int64_t rows, int64_t active, const Data *data,
                              const double *side, double *levels, double *p, double *q, double *masses,
                              double *matrices, double *work) {
    const int64_t size = data->outputs * data->lines, block = active * data->dim * data->outputs;
    for (int64_t n = 0; n < states; n++) {
        outputs_of(z + n * rows * (data->dim + data->outputs), data, side, active, work);
        levels[n] = log_loss(work, data);
        pulls(work, data, data->by_loss ? levels[n] : 0.0);
        memcpy(p + n * size, work, sizeof(double) * (size_t)size);
        memcpy(q + n * size, work + size, sizeof(double) * (size_t)size);
        masses[n] = size ? work[2 * size] : 0.0;
        gathered(work, data, side, active, matrices + n * block);
    }
}

/* p, q and, where there is room for it, the size that these are differences of, of several states from what their lines
   put out, (states, outputs, lines) each; `work` as above. */
PUBLIC void biasfree_pulls(int64_t states, const double *lin, const double *even, const Data *data, double *p, double *q,
                           double *masses, double *work) {
    const int64_t size = data->outputs * data->lines;
    const size_t bytes = sizeof(double) * (size_t)size;
    for (int64_t n = 0; n < states; n++) {
        memcpy(work, lin + n * size, bytes);
        memcpy(work + size, even + n * size, bytes);
        pulls(work, data, data->by_loss ? log_loss(work, data) : 0.0);
        memcpy(p + n * size, work, bytes);
        memcpy(q + n * size, work + size, bytes);
        if (masses) masses[n] = size ? work[2 * size] : 0.0;
    }
}
