/* Parallel rows together: biasfree/dynamics/exact/_merging.py. */

#include "travel.h"

/* Rows of unit length stand in order of their keys, and under one key the largest first. Each that no larger one has
   taken leads a group of all that are within `bound` of it in 1 − cos, have its key and at least the part `least` of its
   square; `leader` is its number. Where more than `many` rows are left after more than `few` groups, each of them is
   left by itself. */
PUBLIC void biasfree_alike(const double *units, const double *keys, const double *squares, int64_t count,
                           int64_t columns, double bound, double least, int64_t many, int64_t few, int64_t *leader) {
    int64_t begin = 0;
    for (int64_t i = 0; i < count; i++) leader[i] = -1;
    while (begin < count) {
        int64_t end = begin, groups = 0, left;
        while (end < count && keys[end] == keys[begin]) end++;
        left = end - begin;
        for (int64_t i = begin; i < end; i++) {
            if (leader[i] >= 0) continue;
            const int alone = left > many && groups > few;
            leader[i] = i;
            left--;
            groups++;
            for (int64_t j = i + 1; !alone && j < end; j++) {
                if (leader[j] >= 0 || squares[j] < least * squares[i]) continue;
                if (1.0 - dot(units + i * columns, units + j * columns, columns) > bound) continue;
                leader[j] = i;
                left--;
            }
        }
        begin = end;
    }
}

/* How many times longer than what is across it a row may be along another (Carried.straighten). Chosen: of its sixteen
   digits thirteen are left for what is across. Were it larger, more would be lost; were it smaller, rows would be
   straightened more often. */
#define LEANS 1e3

/* Whether a row is nearly parallel to another. */
static int lies_along(const double *own, const double *other, int64_t columns) {
    const double size = size_of(own, columns), extent = size_of(other, columns);
    double square = 0.0, both = 0.0, across = 0.0;
    if (size == 0.0 || extent == 0.0) return 0;
    for (int64_t j = 0; j < columns; j++) {
        square += (other[j] / extent) * (other[j] / extent);
        both += (own[j] / size) * (other[j] / extent);
    }
    for (int64_t j = 0; j < columns; j++) {
        const double part = own[j] / size - both / square * (other[j] / extent);
        across += part * part;
    }
    return both * both > LEANS * LEANS * square * across;
}

/* Whether a difference within a group has become nearly parallel to its row; where no line matters, any row to any
   other. With one output nothing can hang on what is across. */
int leans(const double *rows, const Data *data, const Pattern *pattern) {
    const int64_t columns = data->dim + data->outputs;
    if (data->outputs == 1) return 0;
    for (int64_t row = pattern->active; row < pattern->rows; row++)
        if (lies_along(rows + row * columns, rows + pattern->owner[row] * columns, columns)) return 1;
    for (int64_t row = 0; data->b == 0.0 && row < pattern->active; row++)
        for (int64_t other = 0; other < row; other++)
            if (lies_along(rows + row * columns, rows + other * columns, columns)) return 1;
    return 0;
}

PUBLIC int64_t biasfree_leans(const double *rows, const Data *data, const Pattern *pattern) {
    return leans(rows, data, pattern);
}

/* Whether the differences within a group have outgrown it: their squares, in units of its row's, are more than
   `outgrown`. `squares` is room for (active). */
int has_parted(const double *rows, const Pattern *pattern, int64_t columns, double outgrown, double *squares) {
    memset(squares, 0, sizeof(double) * (size_t)pattern->active);
    for (int64_t row = pattern->active; row < pattern->rows; row++) {
        const double *own = rows + row * columns, *leader = rows + pattern->owner[row] * columns;
        const double size = largest(size_of(own, columns), size_of(leader, columns)); /* squares of 1e-200 are none */
        double one = 0.0, other = 0.0;
        if (size == 0.0) continue;
        for (int64_t j = 0; j < columns; j++) {
            one += (own[j] / size) * (own[j] / size);
            other += (leader[j] / size) * (leader[j] / size);
        }
        squares[pattern->owner[row]] += one / other;
    }
    for (int64_t h = 0; h < pattern->active; h++)
        if (squares[h] > outgrown) return 1;
    return 0;
}

PUBLIC int64_t biasfree_parted(const double *rows, const Pattern *pattern, int64_t columns, double outgrown,
                               double *squares) {
    return has_parted(rows, pattern, columns, outgrown, squares);
}

/* Neurons of several states: each is a sum of rows of `states`, (count, rows, columns), times its parts in them, those
   from its `begin` to the next one's. Others of `neurons`, (count, width, columns), stay as they are. */
PUBLIC void biasfree_restored(int64_t count, const double *states, int64_t rows, int64_t columns, const int64_t *row,
                              const double *part, const int64_t *begin, const int64_t *neuron, int64_t some,
                              int64_t width, double *neurons) {
    for (int64_t n = 0; n < count; n++)
        for (int64_t i = 0; i < some; i++) {
            double *to = neurons + (n * width + neuron[i]) * columns;
            memset(to, 0, sizeof(double) * (size_t)columns);
            for (int64_t k = begin[i]; k < begin[i + 1]; k++) {
                const double *own = states + (n * rows + row[k]) * columns;
                for (int64_t j = 0; j < columns; j++) to[j] += part[k] * own[j];
            }
        }
}
