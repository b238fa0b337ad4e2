/* The velocity of a two-layer network of many neurons on many lines.

   The outputs on a line are t·lin + |t|·even with even = b Σ v s(wᵀd), where s(z) is z in front of the line and slope·z
   behind it: slope −1 makes |z|, and lin is then a linear network's. Where all samples of each line are on one side, s
   may be the network's own activation instead, and there is no lin.

   Lines come in blocks, each with its samples (a Data of its own; lines that fill a block up have none and no
   direction). Dimensions in which all lines of a block are zero, as the margins of pictures are, are left out of it.
   All that a block needs stays in the processor's cache: its neurons' wᵀd, its outputs, its pulls, and what these pull
   at the neurons. Only sums leave it. Products are made in tiles of four rows and up to twelve columns, held in
   registers (tiles.h). Where the processor multiplies and adds at once, rounding once, that is used: as with any matrix
   library, the last digit depends on the processor. */

#include "crew.h"
#include "engine.h"

enum { SET = 0, ADD = 1 }; /* what is done with a product */
/* Neurons whose pulls are made together, and lines of a block at most. Chosen: multiples of a tile's four rows and
   twelve columns, whose GROUP × BLOCK numbers are 12 KB and stay in the nearest cache. Were they larger, they would
   leave it; were they smaller, tiles would be begun more often. */
enum { GROUP = 16, BLOCK = 96 };
#define ALIGNED __attribute__((aligned(64))) /* to cache lines, as Python aligns what blocks read */
/* Of losses, so far above float64's least normal number, 2e-308, that what has underflowed is no part of them. Chosen;
   below it the level is found by itself, from logarithms. */
#define LEAST_TOTAL 1e-280

typedef int64_t Bits __attribute__((vector_size(32), aligned(8), may_alias));

typedef struct {
    const Data *blocks;
    const double *const *across; /* per block (lines, its dim padded to fours) */
    const int64_t *const *kept;  /* per block the dimensions in which its lines are not zero; its dim is their number */
    const int64_t *ends;         /* of each part's blocks */
    double *room;                /* as much for each part */
    double slope, at_zero;       /* behind a line; of the linear part, of a neuron with w = 0 */
    int64_t odd, single;         /* whether there is lin; whether each line has one sample, at t = 1 */
    int64_t width, dim, padded, outputs, outputs_padded, parts, room_size;
} Wide;

/* What a part works in: wᵀd of a block, its outputs and then pulls, columns of matrices; and the sums it makes. */
typedef struct { double *along, *work, *columns, *all, *bent_w, *bent_v; } Room;

static int64_t fours(int64_t count) { return (count + 3) / 4 * 4; }

/* A factor of a product, row by row: entry (r, i) is at r·row + i·step, or at r·row + kept[i] where columns are
   named. */
typedef struct {
    const double *at;
    int64_t row, step;
    const int64_t *kept;
} Factor;

#define ON(name) name##_plain
#define KIND
#define PLUS(sum, one, other) ((sum) + (one) * (other))
#define CHOSEN(where, one, other) ((Four)(((Bits)(where) & (Bits)(one)) | (~(Bits)(where) & (Bits)(other))))
#define MOST(one, other) CHOSEN((one) > (other), one, other)
#include "tiles.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define ON(name) name##_fused
#define KIND __attribute__((target("avx2,fma")))
#define PLUS(sum, one, other) _mm256_fmadd_pd(one, other, sum)
#define CHOSEN(where, one, other) _mm256_blendv_pd(other, one, (Four)(where))
#define MOST(one, other) _mm256_max_pd(one, other)
#include "tiles.h"

static int fuses(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#define BEST(name) (fuses() ? name##_fused : name##_plain) /* as this processor does it best */
#else
#define BEST(name) name##_plain
#endif

static void product(Factor a, const double *b, int64_t b_row, int64_t length, double *to, int64_t to_row, int64_t rows,
                    int64_t columns, int add) {
    BEST(product)(a, b, b_row, length, to, to_row, rows, columns, add);
}

FOUR_AT_A_TIME static void times(double factor, int64_t count, double *numbers) {
    for (int64_t i = 0; i < count; i++) numbers[i] *= factor;
}

/* The columns of a matrix that a block needs. */
static Factor taken(const Wide *wide, int64_t n, const double *from) {
    return (Factor){from, wide->dim, 1, wide->blocks[n].dim == wide->dim ? NULL : wide->kept[n]};
}

/* Add to the columns that a block has. */
static void given_back(const Wide *wide, int64_t n, const double *from, int64_t rows, double *to) {
    const int64_t dim = wide->blocks[n].dim, padded = fours(dim), *kept = wide->kept[n];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < dim; j++) to[r * wide->padded + kept[j]] += from[r * padded + j];
}

/* Whether s(z) tells by its sign on which side z is, so that it can take the place of z. */
static int tells_side(const Wide *wide) { return wide->slope >= 0; }

/* What a block puts out, lin and even, to `work`; z = wᵀd of all neurons to `along`, or s(z) where that tells the
   side. */
static void block_outputs(const Wide *wide, int64_t n, const double *w, const double *v, const double *linear,
                          const Room *room) {
    const Data *data = wide->blocks + n;
    const int64_t lines = data->lines, dim = data->dim, width = wide->width, outputs = wide->outputs;
    double shaped[GROUP * BLOCK] ALIGNED, *even = room->work + outputs * lines;
    memset(room->work, 0, sizeof(double) * (size_t)(2 * outputs * lines));
    if (wide->odd)
        product(taken(wide, n, linear), data->transposed, lines, dim, room->work, lines, outputs, lines, SET);
    for (int64_t h = 0; h < width; h += GROUP) {
        const int64_t count = h + GROUP < width ? GROUP : width - h;
        double *along = room->along + h * lines;
        product(taken(wide, n, w + h * wide->dim), data->transposed, lines, dim, along, lines, count, lines, SET);
        BEST(shape)(along, count * lines, wide->slope, tells_side(wide) ? along : shaped);
        if (!tells_side(wide))
            product((Factor){v + h, width, 1, NULL}, shaped, lines, count, even, lines, outputs, lines, ADD);
    }
    if (tells_side(wide)) product((Factor){v, width, 1, NULL}, room->along, lines, width, even, lines, outputs, lines, SET);
    times(data->b, outputs * lines, even);
}

/* Add what a block's pulls make of everything. */
static void block_pulls(const Wide *wide, int64_t n, const double *v, const Room *room) {
    const Data *data = wide->blocks + n;
    const int64_t lines = data->lines, width = wide->width, outputs = wide->outputs, few = wide->outputs_padded;
    const int64_t padded = fours(data->dim), whole = data->dim == wide->dim;
    const double *across = wide->across[n], *q = room->work + outputs * lines;
    double own[GROUP * BLOCK] ALIGNED;
    if (wide->odd) {
        double *to = whole ? room->all : room->columns;
        product((Factor){room->work, lines, 1, NULL}, across, padded, lines, to, padded, outputs, padded, whole ? ADD : SET);
        if (!whole) given_back(wide, n, to, outputs, room->all);
    }
    for (int64_t h = 0; h < width; h += GROUP) {
        const int64_t count = h + GROUP < width ? GROUP : width - h;
        const double *along = room->along + h * lines;
        double *to = whole ? room->bent_w + h * padded : room->columns;
        product((Factor){v + h, 1, width, NULL}, q, lines, outputs, own, lines, count, lines, SET);
        BEST(tilt)(along, count * lines, wide->slope, own);
        product((Factor){own, lines, 1, NULL}, across, padded, lines, to, padded, count, padded, whole ? ADD : SET);
        if (!whole) given_back(wide, n, to, count, room->bent_w + h * wide->padded);
        if (!tells_side(wide)) BEST(shape)(along, count * lines, wide->slope, own);
        BEST(dots)(tells_side(wide) ? along : own, q, lines, room->bent_v + h * few, few, count, outputs);
    }
}

/* The numbers that sums take: Σ p dᵀ, (outputs, padded), Σ s' (qᵀv) dᵀ, (width, padded), and Σ s(wᵀd) qᵀ, (width,
   outputs padded). */
static int64_t sums_size(const Wide *wide) {
    return (wide->outputs + wide->width) * wide->padded + wide->width * wide->outputs_padded;
}

/* The room of a thread for a part; Python makes as many as there are parts, of (width + 4 outputs + 1) BLOCK and
   (outputs + GROUP) padded numbers, which stay in the thread's cache, and as many as the sums are. */
static Room room_of(const Wide *wide, int64_t thread, int64_t part) {
    double *along = wide->room + thread * wide->room_size, *work = along + wide->width * BLOCK;
    double *columns = work + (4 * wide->outputs + 1) * BLOCK;
    double *all = wide->room + (part + 1) * wide->room_size - sums_size(wide), *bent_w = all + wide->outputs * wide->padded;
    return (Room){along, work, columns, all, bent_w, bent_w + wide->width * wide->padded};
}

/* What all threads work at; each takes the next part until none is left. */
typedef struct {
    const Wide *wide;
    const double *w, *v, *linear;
    double *levels; /* ln L of the samples of each block, as if there were no others but for their number */
    int64_t pulling, next, threads; /* whether sums are asked for, or levels alone; parts and threads that have begun */
} Work;

/* A block's pulls in place of its outputs, and its level where that costs next to nothing; else it is no number. */
static double pulls_and_level(const Wide *wide, const Data *data, double *work) {
    const int64_t size = data->outputs * data->lines;
    if (wide->single && data->loss == CROSS_ENTROPY) {
        const double total = data->offset + BEST(put_class_pulls)(work + size, data->sums + size, data->lines, data->outputs,
                                                                  data->samples);
        return total > LEAST_TOTAL ? log(total / data->samples) : NAN; /* what has underflowed is not in it */
    }
    const double level = data->loss == SQUARE ? log_loss(work, data) : NAN;
    pulls(work, data, 0.0);
    return level;
}

static void sum_part(const Work *work, int64_t thread, int64_t part) {
    const Wide *wide = work->wide;
    const Room room = room_of(wide, thread, part);
    if (work->pulling) memset(room.all, 0, sizeof(double) * (size_t)sums_size(wide));
    for (int64_t n = wide->ends[part]; n < wide->ends[part + 1]; n++) {
        const Data *data = wide->blocks + n;
        block_outputs(wide, n, work->w, work->v, work->linear, &room);
        work->levels[n] = work->pulling ? pulls_and_level(wide, data, room.work) : log_loss(room.work, data);
        if (work->pulling) block_pulls(wide, n, work->v, &room);
    }
}

static void sum_parts(void *shared) {
    Work *work = shared;
    const int64_t thread = __atomic_fetch_add(&work->threads, 1, __ATOMIC_RELAXED);
    for (;;) {
        const int64_t part = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
        if (part >= work->wide->parts) return;
        sum_part(work, thread, part);
    }
}

/* a Σ v wᵀ, (outputs, dim). */
FOUR_AT_A_TIME static void put_linear(const Wide *wide, const double *w, const double *v, double *to) {
    const int64_t dim = wide->dim, width = wide->width;
    memset(to, 0, sizeof(double) * (size_t)(wide->outputs * dim));
    for (int64_t h = 0; h < width; h++)
        for (int64_t k = 0; k < wide->outputs; k++) {
            const double factor = wide->blocks[0].a * v[k * width + h];
            for (int64_t j = 0; j < dim; j++) to[k * dim + j] += factor * w[h * dim + j];
        }
}

FOUR_AT_A_TIME static void add_to(const double *numbers, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i++) to[i] += numbers[i];
}

static int is_nothing(const double *row, int64_t count) {
    for (int64_t j = 0; j < count; j++)
        if (row[j] != 0) return 0;
    return 1;
}

/* The velocity from all sums; Σ p dᵀ, (outputs, dim), is what all neurons share. `turned` is its transpose, outputs
   padded. */
static void put_velocity(const Wide *wide, const double *w, const double *v, const Room *sums, double *pull,
                         double *turned, double *moving) {
    const int64_t dim = wide->dim, width = wide->width, outputs = wide->outputs, padded = wide->padded;
    const int64_t few = wide->outputs_padded;
    const double decay = wide->blocks[0].decay;
    memset(turned, 0, sizeof(double) * (size_t)(dim * few));
    for (int64_t k = 0; k < outputs; k++)
        for (int64_t j = 0; j < dim; j++) pull[k * dim + j] = turned[j * few + k] = sums->all[k * padded + j];
    if (wide->odd) product((Factor){v, 1, width, NULL}, sums->all, padded, outputs, sums->bent_w, padded, width, padded, ADD);
    for (int64_t h = 0; wide->odd && h < width; h++)
        if (is_nothing(w + h * dim, dim)) { /* σ'(0) is the slope on both sides of every line */
            double *own = sums->bent_w + h * padded;
            product((Factor){v + h, 1, width, NULL}, sums->all, padded, outputs, own, padded, 1, padded, SET);
            times(wide->at_zero, dim, own);
        }
    product((Factor){w, dim, 1, NULL}, turned, few, dim, sums->bent_v, few, width, few, ADD);
    double *moving_v = moving + width * dim;
    for (int64_t h = 0; h < width; h++) {
        for (int64_t j = 0; j < dim; j++) moving[h * dim + j] = sums->bent_w[h * padded + j] - decay * w[h * dim + j];
        for (int64_t k = 0; k < outputs; k++)
            moving_v[k * width + h] = sums->bent_v[h * few + k] - decay * v[k * width + h];
    }
}

/* The velocity of w, (width, dim), and v, (outputs, width), in one row, to `moving`, and the blocks' levels as far as
   they cost next to nothing. `linear` and `pull` are (outputs, dim). */
PUBLIC void biasfree_wide_velocity(const Wide *wide, const double *weights, int64_t threads, double *linear, double *pull,
                                   double *levels, double *moving) {
    const double *w = weights, *v = weights + wide->width * wide->dim;
    Work work = {wide, w, v, linear, levels, 1, 0, 0};
    if (wide->odd) put_linear(wide, w, v, linear);
    together(sum_parts, &work, threads < wide->parts ? threads : wide->parts); /* each has a room */
    const Room sums = room_of(wide, 0, 0);
    for (int64_t part = 1; part < wide->parts; part++) add_to(room_of(wide, 0, part).all, sums_size(wide), sums.all);
    put_velocity(wide, w, v, &sums, pull, sums.columns, moving);
}

/* The blocks' levels. */
PUBLIC void biasfree_wide_levels(const Wide *wide, const double *weights, int64_t threads, double *linear, double *levels) {
    const double *w = weights, *v = weights + wide->width * wide->dim;
    Work work = {wide, w, v, linear, levels, 0, 0, 0};
    if (wide->odd) put_linear(wide, w, v, linear);
    together(sum_parts, &work, threads < wide->parts ? threads : wide->parts); /* each has a room */
}
