/* Eigenvalues and eigenvectors of small symmetric matrices, and orthonormal bases: for exponential steps that follow each
   other in C (chain.c). Elsewhere LAPACK does this. */

#include "late.h"

enum { MOST_TURNS = 50 }; /* chosen, never reached: three or so are needed for each eigenvalue */
/* An entry beside the diagonal of this part of the largest one is nothing. Bound: float64's spacing. */
#define SPACING 2.2204460492503131e-16

/* The reflection I − βvvᵀ that takes x to (α, 0, …, 0): v in place of x, and β; α. Nothing to do: β = 0. */
static double reflect(double *x, int64_t size, double *beta) {
    double most = 0.0, square = 0.0;
    *beta = 0.0;
    for (int64_t i = 0; i < size; i++) most = largest(most, fabs(x[i]));
    if (!(most > 0.0)) return 0.0;
    for (int64_t i = 0; i < size; i++) {
        x[i] /= most;
        square += x[i] * x[i];
    }
    const double length = sqrt(square), alpha = x[0] > 0.0 ? -length : length;
    x[0] -= alpha;
    *beta = 1.0 / (length * (length + fabs(x[0] + alpha)));
    return most * alpha;
}

/* (I − βvvᵀ)x, in place of x. */
static void mirror(const double *v, double beta, double *x, int64_t size) {
    double total = 0.0;
    for (int64_t i = 0; i < size; i++) total += v[i] * x[i];
    for (int64_t i = 0; i < size; i++) x[i] -= beta * total * v[i];
}

/* An orthonormal basis of what some vectors span, (columns, size), or of more where they depend on each other, in their
   place; `room` is for (columns, size + 1). */
void orthonormal(int64_t columns, int64_t size, double *vectors, double *room) {
    double *betas = room + columns * size;
    for (int64_t k = 0; k < columns; k++) {
        double *v = room + k * size;
        memcpy(v, vectors + k * size, sizeof(double) * (size_t)size);
        for (int64_t i = 0; i < k; i++) mirror(room + i * size + i, betas[i], v + i, size - i);
        reflect(v + k, size - k, betas + k);
    }
    for (int64_t k = 0; k < columns; k++) {
        double *basis = vectors + k * size;
        memset(basis, 0, sizeof(double) * (size_t)size);
        basis[k] = 1.0;
        for (int64_t i = columns - 1; i >= 0; i--) mirror(room + i * size + i, betas[i], basis + i, size - i);
    }
}

/* Three diagonals from a symmetric matrix, by reflections from both sides: the diagonal, and what is beside it. The
   matrix becomes Qᵀ, whose rows take vectors to where there are three. `room` is for (3, size). */
static void reduce(int64_t size, double *matrix, double *diagonal, double *beside, double *room) {
    double *product = room, *betas = room + size, *row = room + 2 * size;
    for (int64_t k = 0; k + 1 < size; k++) {
        const int64_t left = size - k - 1;
        double *v = matrix + k * size + k + 1, inner = 0.0;
        diagonal[k] = matrix[k * size + k];
        beside[k] = reflect(v, left, betas + k);
        if (betas[k] == 0.0) continue;
        for (int64_t i = 0; i < left; i++) { /* p = βAv − ½β(vᵀp)v; A becomes A − vpᵀ − pvᵀ */
            const double *from = matrix + (k + 1 + i) * size + k + 1;
            double total = 0.0;
            for (int64_t j = 0; j < left; j++) total += from[j] * v[j];
            product[i] = betas[k] * total;
            inner += product[i] * v[i];
        }
        for (int64_t i = 0; i < left; i++) product[i] -= 0.5 * betas[k] * inner * v[i];
        for (int64_t i = 0; i < left; i++) {
            double *to = matrix + (k + 1 + i) * size + k + 1;
            for (int64_t j = 0; j < left; j++) to[j] -= v[i] * product[j] + product[i] * v[j];
        }
    }
    diagonal[size - 1] = matrix[size * size - 1];
    beside[size - 1] = 0.0;
    for (int64_t k = size - 1; k >= 0; k--) { /* the reflections, the last one first, from the right */
        const int64_t left = size - k - 1;
        double *v = row, *own = matrix + k * size;
        if (left > 0) memcpy(v, own + k + 1, sizeof(double) * (size_t)left);
        memset(own, 0, sizeof(double) * (size_t)size);
        own[k] = 1.0;
        for (int64_t i = k + 1; i < size; i++) {
            matrix[i * size + k] = 0.0;
            if (betas[k] != 0.0) mirror(v, betas[k], matrix + i * size + k + 1, left);
        }
    }
}

/* Rotate two rows. */
static void turn(double *one, double *other, int64_t size, double c, double s) {
    for (int64_t j = 0; j < size; j++) {
        const double a = one[j], b = other[j];
        one[j] = c * a - s * b;
        other[j] = s * a + c * b;
    }
}

/* One sweep of QL's implicit shifts over rows `first` to `last` of three diagonals. */
static void sweep(int64_t size, int64_t first, int64_t last, double *diagonal, double *beside, double *vectors) {
    const double half = 0.5 * (diagonal[first + 1] - diagonal[first]), e = beside[first];
    const double shift = diagonal[first] - e * e / (half + (half < 0.0 ? -1.0 : 1.0) * sqrt(half * half + e * e));
    double g = diagonal[last] - shift, s = 1.0, c = 1.0, carried = 0.0;
    for (int64_t i = last - 1; i >= first; i--) {
        const double f = s * beside[i], b = c * beside[i], r = sqrt(f * f + g * g);
        beside[i + 1] = r;
        if (r == 0.0) { /* the matrix has come apart */
            diagonal[i + 1] -= carried;
            beside[last] = 0.0;
            return;
        }
        s = f / r;
        c = g / r;
        const double d = diagonal[i + 1] - carried, t = (diagonal[i] - d) * s + 2.0 * c * b;
        carried = s * t;
        diagonal[i + 1] = d + carried;
        g = c * t - b;
        turn(vectors + i * size, vectors + (i + 1) * size, size, c, s);
    }
    diagonal[first] -= carried;
    beside[first] = g;
    beside[last] = 0.0;
}

/* Eigenvalues of a symmetric matrix, in any order, and its eigenvectors, one in a row, in its place; whether they were
   found. `room` is for (4, size). */
PUBLIC int64_t biasfree_eigen(int64_t size, double *matrix, double *values, double *room) {
    double *beside = room, whole = 0.0;
    if (size == 0) return 1;
    reduce(size, matrix, values, beside, room + size);
    for (int64_t m = 0; m < size; m++) whole = largest(whole, fabs(values[m]) + fabs(beside[m]));
    for (int64_t first = 0; first < size; first++)
        for (int64_t turns = 0;; turns++) {
            int64_t last = first;
            while (last + 1 < size && fabs(beside[last]) > SPACING * whole) last++;
            if (last == first) break;
            if (turns == MOST_TURNS) return 0;
            sweep(size, first, last, values, beside, matrix);
        }
    for (int64_t m = 0; m < size; m++)
        if (!(fabs(values[m]) < INFINITY)) return 0;
    return 1;
}
