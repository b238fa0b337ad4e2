/* The velocity of a two-layer network of many neurons on many lines.

   The outputs on a line are t·lin + |t|·even with even = b Σ v s(wᵀd), where s(z) is z in front of the line and slope·z
   behind it: slope −1 makes |z|, and lin is then a linear network's. Where all samples of each line are on one side, s may
   be the network's own activation instead, and there is no lin.

   Lines come in blocks, each with its samples (a Data of its own; lines that fill a block up have none and no direction).
   Dimensions in which all lines of a block are zero, as the margins of pictures are, are left out of it.
   All that a block needs stays in the processor's cache: its neurons' wᵀd, its outputs, its pulls, and what these pull at
   the neurons. Only sums leave it. Products are made in tiles of four rows and up to twelve columns, held in registers
   (tiles.h). Where the processor multiplies and adds at once, rounding once, that is used: as with any matrix library,
   the last digit depends on the processor. */

#include "engine.h"

enum { SET = 0, ADD = 1 };
enum { GROUP = 16, BLOCK = 96 }; /* neurons whose pulls are made together, lines of a block at most */

typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t Bits __attribute__((vector_size(32), aligned(8), may_alias));

typedef struct {
    const Data *blocks;
    const double *const *across; /* per block (lines, its dim padded to fours) */
    const int64_t *const *kept;  /* per block the dimensions in which its lines are not zero; its dim is their number */
    double slope;
    int64_t odd, single; /* whether there is lin; whether each line has one sample, at t = 1 */
    int64_t width, dim, padded, outputs, outputs_padded;
} Wide;

/* What a block works in. */
typedef struct { double *along, *work, *turned, *columns; } Room;

static int64_t fours(int64_t count) { return (count + 3) / 4 * 4; }

/* A factor of a product, row by row: entry (r, i) is at r·row + i·step. */
typedef struct {
    const double *at;
    int64_t row, step;
} Factor;

#define ON(name) name##_plain
#define KIND
#define PLUS(sum, one, other) ((sum) + (one) * (other))
#include "tiles.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define ON(name) name##_fused
#define KIND __attribute__((target("avx2,fma")))
#define PLUS(sum, one, other) _mm256_fmadd_pd(one, other, sum)
#include "tiles.h"
#endif

/* to = a·b, or to += a·b, as this processor does it best. */
static void product(Factor a, const double *b, int64_t b_row, int64_t length, double *to, int64_t to_row, int64_t rows,
                    int64_t columns, int add) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        product_fused(a, b, b_row, length, to, to_row, rows, columns, add);
        return;
    }
#endif
    product_plain(a, b, b_row, length, to, to_row, rows, columns, add);
}

/* In front of a line what is there, behind it times the slope. Four at a time by hand: what compilers make of the choice is
   a branch, which is guessed wrong half of the time. */
WITHIN void put_sloped(const double *along, const double *numbers, double slope, double *to) {
    const Four side = *(const Four *)along, here = *(const Four *)numbers, none = {0.0, 0.0, 0.0, 0.0};
    const Four slopes = {slope, slope, slope, slope}, behind = slopes * here;
    const Bits front = (Bits)(side > none);
    *(Four *)to = (Four)((front & (Bits)here) | (~front & (Bits)behind));
}

FOUR_AT_A_TIME static void sloped(const double *along, const double *numbers, int64_t count, double slope, double *to) {
    for (int64_t i = 0; i < count; i += 4) put_sloped(along + i, numbers + i, slope, to + i);
}

FOUR_AT_A_TIME static void times(double factor, int64_t count, double *numbers) {
    for (int64_t i = 0; i < count; i++) numbers[i] *= factor;
}

/* e^x of four numbers that are not positive; 0 below 2^-1020. With n = x/ln 2 rounded, e^(x − n ln 2) is its Taylor
   polynomial (the next term is below 4e-18 there) and n goes to the exponent's bits. */
WITHIN void put_exponential(const double *numbers, double *to) {
    static const double digits[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                    1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    const Four x = *(const Four *)numbers, least = {-707.0, -707.0, -707.0, -707.0};
    const Bits in_range = (Bits)(x > least);
    const double whole = 6755399441055744.0; /* 1.5·2^52: what is added to it is rounded, its last bits are n */
    const Four shift = {whole, whole, whole, whole}, shifted = x * 1.4426950408889634 + shift, n = shifted - shift;
    const Four left = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    Four sum = {digits[0], digits[0], digits[0], digits[0]};
    for (int i = 1; i < 14; i++) sum = sum * left + digits[i];
    *(Four *)to = (Four)(in_range & ((Bits)sum + ((Bits)shifted << 52))) + 0.0 * x; /* what is no number stays none */
}

/* q of a block whose lines have a sample each, at t = 1, under cross-entropy on the time clock, in place of even: y − p, of
   the class in front from the probability of all others. */
FOUR_AT_A_TIME static void put_class_pulls(double *even, const double *y, int64_t lines, int64_t outputs, double samples) {
    const Four none = {0.0, 0.0, 0.0, 0.0};
    for (int64_t line = 0; line < lines; line += 4) {
        Four most = *(const Four *)(even + line), others = none;
        Bits leads = {0, 0, 0, 0};
        for (int64_t k = 1; k < outputs; k++) {
            const Four f = *(const Four *)(even + k * lines + line);
            const Bits more = (Bits)(f > most), own = {k, k, k, k};
            most = (Four)((more & (Bits)f) | (~more & (Bits)most));
            leads = (more & own) | (~more & leads);
        }
        for (int64_t k = 0; k < outputs; k++) {
            Four *here = (Four *)(even + k * lines + line);
            const Bits own = {k, k, k, k};
            *here -= most;
            put_exponential((const double *)here, (double *)here);
            others += (Four)((Bits)*here & (leads != own));
        }
        const Four each = 1.0 / (1.0 + others);
        for (int64_t k = 0; k < outputs; k++) {
            Four *here = (Four *)(even + k * lines + line);
            const Four target = *(const Four *)(y + k * lines + line);
            const Bits own = {k, k, k, k}, first = leads == own;
            const Four plain = target - each * *here, leading = each * (target * others - (1.0 - target));
            *here = (Four)((first & (Bits)leading) | (~first & (Bits)plain)) / samples;
        }
    }
}

/* Columns of a matrix that a block needs, side by side; `to` has a row for each row. */
static const double *taken(const Wide *wide, int64_t n, const double *from, int64_t rows, double *to) {
    const int64_t dim = wide->blocks[n].dim, *kept = wide->kept[n];
    if (dim == wide->dim) return from;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < dim; j++) to[r * dim + j] = from[r * wide->dim + kept[j]];
    return to;
}

/* Add to the columns they were taken from. */
static void given_back(const Wide *wide, int64_t n, const double *from, int64_t rows, double *to) {
    const int64_t dim = wide->blocks[n].dim, padded = fours(dim), *kept = wide->kept[n];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < dim; j++) to[r * wide->padded + kept[j]] += from[r * padded + j];
}

/* What a block puts out, lin and even, to `work`; wᵀd of all neurons to `along`. */
static void block_outputs(const Wide *wide, int64_t n, const double *w, const double *v, const double *linear,
                          const Room *room) {
    const Data *data = wide->blocks + n;
    const int64_t lines = data->lines, dim = data->dim, width = wide->width, outputs = wide->outputs;
    double shaped[GROUP * BLOCK], *even = room->work + outputs * lines;
    memset(room->work, 0, sizeof(double) * (size_t)(2 * outputs * lines));
    if (wide->odd) {
        const double *map = taken(wide, n, linear, outputs, room->columns);
        product((Factor){map, dim, 1}, data->transposed, lines, dim, room->work, lines, outputs, lines, SET);
    }
    w = taken(wide, n, w, width, room->columns);
    for (int64_t h = 0; h < width; h += GROUP) {
        const int64_t count = h + GROUP < width ? GROUP : width - h;
        double *own = room->along + h * lines;
        product((Factor){w + h * dim, dim, 1}, data->transposed, lines, dim, own, lines, count, lines, SET);
        sloped(own, own, count * lines, wide->slope, shaped);
        product((Factor){v + h, width, 1}, shaped, lines, count, even, lines, outputs, lines, ADD);
    }
    times(data->b, outputs * lines, even);
}

/* Add what a block's pulls make of everything. */
static void block_pulls(const Wide *wide, int64_t n, const double *v, const Room *room, double *all, double *bent_w,
                        double *bent_v) {
    const Data *data = wide->blocks + n;
    const int64_t lines = data->lines, width = wide->width, outputs = wide->outputs, few = wide->outputs_padded;
    const int64_t padded = fours(data->dim), whole = data->dim == wide->dim;
    const double *across = wide->across[n], *q = room->work + outputs * lines;
    double own[GROUP * BLOCK];
    memset(room->turned, 0, sizeof(double) * (size_t)(lines * few));
    for (int64_t k = 0; k < outputs; k++)
        for (int64_t line = 0; line < lines; line++) room->turned[line * few + k] = q[k * lines + line];
    if (wide->odd) {
        double *to = whole ? all : room->columns;
        product((Factor){room->work, lines, 1}, across, padded, lines, to, padded, outputs, padded, whole ? ADD : SET);
        if (!whole) given_back(wide, n, to, outputs, all);
    }
    for (int64_t h = 0; h < width; h += GROUP) {
        const int64_t count = h + GROUP < width ? GROUP : width - h;
        const double *along = room->along + h * lines;
        double *to = whole ? bent_w + h * padded : room->columns;
        product((Factor){v + h, 1, width}, q, lines, outputs, own, lines, count, lines, SET);
        sloped(along, own, count * lines, wide->slope, own);
        product((Factor){own, lines, 1}, across, padded, lines, to, padded, count, padded, whole ? ADD : SET);
        if (!whole) given_back(wide, n, to, count, bent_w + h * wide->padded);
        sloped(along, along, count * lines, wide->slope, own);
        product((Factor){own, lines, 1}, room->turned, few, lines, bent_v + h * few, few, count, few, ADD);
    }
}

static Room rooms(const Wide *wide, double *room) {
    double *work = room + wide->width * BLOCK, *turned = work + (4 * wide->outputs + 1) * BLOCK;
    return (Room){room, work, turned, turned + wide->outputs_padded * BLOCK};
}

/* Sums over blocks begin to end: Σ p dᵀ to `all`, (outputs, padded), Σ s' (qᵀv) dᵀ to `bent_w`, (width, padded), and
   Σ s(wᵀd) qᵀ to `bent_v`, (width, outputs padded), all zero before. `linear` is a Σ v wᵀ, (outputs, dim). The room is for
   (width + 4 outputs + 1 + outputs padded, BLOCK) and (width + outputs + GROUP, padded) numbers. */
PUBLIC void biasfree_wide_velocity(const Wide *wide, int64_t begin, int64_t end, const double *w, const double *v,
                                   const double *linear, double *all, double *bent_w, double *bent_v, double *room) {
    const Room parts = rooms(wide, room);
    for (int64_t n = begin; n < end; n++) {
        block_outputs(wide, n, w, v, linear, &parts);
        const Data *data = wide->blocks + n;
        const int64_t size = data->outputs * data->lines;
        if (wide->single && data->loss == CROSS_ENTROPY)
            put_class_pulls(parts.work + size, data->sums + size, data->lines, data->outputs, data->samples);
        else
            pulls(parts.work, data, 0.0);
        block_pulls(wide, n, v, &parts, all, bent_w, bent_v);
    }
}

/* ln L of the samples of each block, as if there were no others but for their number. */
PUBLIC void biasfree_wide_levels(const Wide *wide, int64_t begin, int64_t end, const double *w, const double *v,
                                 const double *linear, double *levels, double *room) {
    const Room parts = rooms(wide, room);
    for (int64_t n = begin; n < end; n++) {
        block_outputs(wide, n, w, v, linear, &parts);
        levels[n] = log_loss(parts.work, wide->blocks + n);
    }
}
