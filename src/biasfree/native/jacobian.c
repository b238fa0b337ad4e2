/* What the derivative of the velocity is made of: biasfree/dynamics/exact/_jacobian.py has the equations. */

#include "engine.h"

/* Rows that J is of, and what pulls them. */
typedef struct {
    const double *z;              /* (count, columns): w and v */
    const double *side;           /* (count, lines) */
    const double *across;         /* (count, dim, dim), or nothing */
    const double *matrices;       /* (count, dim, outputs) */
    const double *roots;          /* (2, lines, outputs, outputs): R with RRᵀ = C± */
    double decay;
    int64_t count;
} Rows;

/* A: J but for what the residuals change by. */
static void fill_blocks(const Rows *rows, int64_t dim, int64_t outputs, double *jacobian) {
    const int64_t columns = dim + outputs, size = rows->count * columns;
    memset(jacobian, 0, sizeof(double) * (size_t)(size * size));
    for (int64_t h = 0; h < rows->count; h++) {
        double *block = jacobian + h * columns * size + h * columns;
        for (int64_t j = 0; j < columns; j++) block[j * size + j] = -rows->decay;
        for (int64_t j = 0; j < dim; j++)
            for (int64_t k = 0; k < outputs; k++)
                block[j * size + dim + k] = block[(dim + k) * size + j] = rows->matrices[(h * dim + j) * outputs + k];
    }
}

/* The direction of a line as a row sees it that slides on others. */
static void see(const Rows *rows, int64_t h, const double *direction, int64_t dim, double *seen) {
    if (!rows->across) {
        memcpy(seen, direction, sizeof(double) * (size_t)dim);
        return;
    }
    memset(seen, 0, sizeof(double) * (size_t)dim);
    for (int64_t i = 0; i < dim; i++)
        for (int64_t j = 0; j < dim; j++) seen[j] += direction[i] * rows->across[(h * dim + i) * dim + j];
}

/* ∇u of one half of a line along the columns of R, to the next rows of `slopes`, (outputs, count, columns). */
static void fill_slopes(const Rows *rows, const Data *data, int64_t line, double sign, const double *root,
                        double *direction, double *seen, double *slopes) {
    const int64_t dim = data->dim, outputs = data->outputs, columns = dim + outputs;
    for (int64_t j = 0; j < dim; j++) direction[j] = data->transposed[j * data->lines + line];
    for (int64_t h = 0; h < rows->count; h++) {
        const double gain = data->a + data->b * sign * rows->side[h * data->lines + line];
        const double *w = rows->z + h * columns, *v = w + dim;
        double product = 0.0;
        for (int64_t j = 0; j < dim; j++) product += w[j] * direction[j];
        see(rows, h, direction, dim, seen);
        for (int64_t k = 0; k < outputs; k++) {
            double *to = slopes + (k * rows->count + h) * columns, along = 0.0;
            for (int64_t o = 0; o < outputs; o++) {
                along += root[o * outputs + k] * v[o];
                to[dim + o] = gain * product * root[o * outputs + k];
            }
            for (int64_t j = 0; j < dim; j++) to[j] = gain * along * seen[j];
        }
    }
}

/* J is `jacobian`, (entries, entries), less the square of `slopes`, (2 lines outputs, entries), of which so many rows
   are used: halves of lines that no sample lies on have none. `room` is for (2, dim). */
PUBLIC int64_t biasfree_jacobian(const Rows *rows, const Data *data, double *jacobian, double *slopes, double *room) {
    const int64_t outputs = data->outputs, each = outputs * rows->count * (data->dim + outputs);
    int64_t used = 0;
    fill_blocks(rows, data->dim, outputs, jacobian);
    for (int64_t half = 0; half < 2 * data->lines; half++) {
        const double *root = rows->roots + half * outputs * outputs;
        int lies = 0;
        for (int64_t i = 0; i < outputs * outputs; i++) lies = lies || root[i] != 0.0;
        if (!lies) continue;
        fill_slopes(rows, data, half % data->lines, half < data->lines ? 1.0 : -1.0, root, room, room + data->dim,
                    slopes + used * each);
        used++;
    }
    return used * outputs;
}
