/* Singular values by rotations, and groups of neurons that are made one by them (biasfree/dynamics/exact/_groups.py). */

#include "engine.h"

enum { MOST_SWEEPS = 30 }; /* chosen, never reached: Jacobi's rotations converge quadratically, in a few sweeps */

/* The cosine of two columns that are orthogonal: five times float64's rounding, 2.2e-16. Much less might never be
   reached: MOST_SWEEPS would end it. */
#define ORTHOGONAL 1e-15

/* M = UΣVᵀ by Jacobi's rotations of M's columns: left is M, and then UΣ, (rows, columns); right is V. Columns of a length
   of `dust` beside another are let be. */
void rotate(double *left, double *right, int64_t rows, int64_t columns, double dust) {
    memset(right, 0, sizeof(double) * (size_t)(columns * columns));
    for (int64_t k = 0; k < columns; k++) right[k * columns + k] = 1.0;
    for (int sweep = 0, turned = 1; turned && sweep < MOST_SWEEPS; sweep++) {
        turned = 0;
        for (int64_t p = 0; p < columns; p++)
            for (int64_t q = p + 1; q < columns; q++) {
                double one = 0.0, other = 0.0, both = 0.0;
                for (int64_t j = 0; j < rows; j++) {
                    const double a = left[j * columns + p], b = left[j * columns + q];
                    one += a * a;
                    other += b * b;
                    both += a * b;
                }
                if (!(fabs(both) > ORTHOGONAL * sqrt(one) * sqrt(other))) continue;
                if (smallest(one, other) <= dust * dust * largest(one, other)) continue;
                turned = 1;
                const double tau = (other - one) / (2.0 * both);
                const double t = (tau < 0.0 ? -1.0 : 1.0) / (fabs(tau) + sqrt(1.0 + tau * tau));
                const double c = 1.0 / sqrt(1.0 + t * t), s = c * t;
                for (int64_t j = 0; j < rows + columns; j++) {
                    double *row = j < rows ? left + j * columns : right + (j - rows) * columns;
                    const double a = row[p], b = row[q];
                    row[p] = c * a - s * b;
                    row[q] = s * a + c * b;
                }
            }
    }
}

/* A group's neurons as one: U to `parts`, (members, rank), and ΣVᵀ to `rows`, (rank, columns), the largest row first,
   without those of `dust` beside it; the rank. The smaller side of the matrix is turned. */
static int64_t make_one(const double *neurons, int64_t members, int64_t columns, double dust, double *parts, double *rows,
                        double *room) {
    const int64_t wide = members < columns, turned = wide ? members : columns, longer = wide ? columns : members;
    double *left = room, *right = left + longer * turned, *sizes = right + turned * turned;
    double entry = 0.0, first = 0.0, sum = 0.0;
    int64_t rank = 0;
    for (int64_t i = 0; i < members * columns; i++) entry = largest(entry, fabs(neurons[i]));
    for (int64_t i = 0; i < members; i++)
        for (int64_t j = 0; j < columns; j++)
            left[wide ? j * turned + i : i * turned + j] = neurons[i * columns + j] / entry;
    rotate(left, right, longer, turned, dust);
    for (int64_t k = 0; k < turned; k++) {
        double square = 0.0;
        for (int64_t i = 0; i < longer; i++) square += left[i * turned + k] * left[i * turned + k];
        sizes[k] = sqrt(square);
        first = largest(first, sizes[k]);
    }
    for (int64_t k = 0; k < turned; k++) rank += sizes[k] > dust * first;
    for (int64_t r = 0; r < rank; r++) {
        int64_t k = 0;
        for (int64_t other = 1; other < turned; other++)
            if (sizes[other] > sizes[k]) k = other;
        const double size = sizes[k];
        sizes[k] = 0.0;
        for (int64_t i = 0; i < members; i++)
            parts[i * rank + r] = wide ? right[i * turned + k] : left[i * turned + k] / size;
        for (int64_t j = 0; j < columns; j++)
            rows[r * columns + j] = entry * (wide ? left[j * turned + k] : size * right[j * turned + k]);
    }
    for (int64_t i = 0; i < members; i++) sum += parts[i * rank];
    for (int64_t i = 0; sum < 0.0 && i < members; i++) parts[i * rank] = -parts[i * rank];
    for (int64_t j = 0; sum < 0.0 && j < columns; j++) rows[j] = -rows[j];
    return rank;
}

/* Several groups of neurons, one after the other: their U, (members, columns) of room each, their ΣVᵀ, (columns,
   columns) each, and their ranks. `room` is for (members + columns + 1, columns) of the largest. */
PUBLIC void biasfree_grouped(int64_t groups, const int64_t *begin, const double *neurons, int64_t columns, double dust,
                             double *parts, double *rows, int64_t *ranks, double *room) {
    for (int64_t n = 0; n < groups; n++) {
        const int64_t first = begin[n] * columns;
        ranks[n] = make_one(neurons + first, begin[n + 1] - begin[n], columns, dust, parts + first,
                            rows + n * columns * columns, room);
    }
}
