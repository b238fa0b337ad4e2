/* The velocity of all rows with their sides held, and the loss. */

#include "engine.h"

Tables TABLES;

/* Lines and inputs up to which four lines are taken at a time, their sums in registers. Chosen: directions are kept in
   an array of so many; beyond it plain loops over all lines are used. Where these become the faster ones is not
   known. */
enum { FEW = 16 };

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

/* lin_l and even_l of all outputs, (outputs, lines) each, to the first rows of `work`; the row after them is used
   up. */
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

/* Change a form, in place, after row h has changed sides on a line, by multiples of d dᵀ; the pattern has the new
   side. */
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

/* The velocity of all rows at `z`, to `stage`, and the decay; ln L where the clock needs it, else 0. p and q are left at
   the desk, and M of the active rows, without what they slide on. */
PUBLIC double biasfree_moving(const double *z, const Data *data, const Pattern *pattern, const Desk *desk, double *stage,
                              double *decay) {
    const double level = pulls_here(z, data, pattern, desk->work);
    gathered(desk->work, data, pattern->side, pattern->active, desk->pull);
    projected(pattern, data->dim, data->outputs, desk->pull);
    *decay = data->decay > 0.0 ? data->decay * exp(-level) : 0.0;
    moved(z, pattern, *decay, desk->pull, stage, data->dim, data->outputs);
    return level;
}

/* Velocities of several states `z`, (states, rows, columns), where p and q are given, (states, outputs, lines) each. */
PUBLIC void biasfree_speeds(int64_t states, const double *z, const double *p, const double *q, const Data *data,
                            const Pattern *pattern, const Desk *desk, double *speeds) {
    const int64_t dim = data->dim, outputs = data->outputs, size = pattern->rows * (dim + outputs);
    const int64_t each = outputs * data->lines;
    for (int64_t n = 0; n < states; n++) {
        memcpy(desk->work, p + n * each, sizeof(double) * (size_t)each);
        memcpy(desk->work + each, q + n * each, sizeof(double) * (size_t)each);
        gathered(desk->work, data, pattern->side, pattern->active, desk->pull);
        projected(pattern, dim, outputs, desk->pull);
        moved(z + n * size, pattern, data->decay, desk->pull, speeds + n * size, dim, outputs);
    }
}

/* ln L of several states `z`, (states, rows, columns), with the sides that their active rows have there; `side` and
   `work` are room for (active, lines) and (4 outputs + 1, lines). */
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
