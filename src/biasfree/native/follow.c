/* Plain crossings of negligible neurons: all but a few of what happens in an early phase.

   A crossing is plain if the neuron goes on through the line it has met and goes on sliding on the lines it slid on:
   flipped, the line must let it pass, and the ς that keep d_lᵀc = 0 on the others must lie inside [−1, 1]. By the
   convexity that `settle` (biasfree/switching/_filippov.py) rests on this is then the solution. Everything else is left
   to it. The closed forms between crossings are those of biasfree/switching/_neurons.py. */

#include "engine.h"

enum { FINISHED = 0, MET = 1, FULL = 2 }; /* why a neuron is left */
/* Crossings after which sums are formed anew. Chosen: what rounding adds up to in between is below `together`, which is
   some thousand times the rounding of one; forming them costs a few times what a crossing does. */
enum { AFRESH = 50 };
/* Times Python's ROUNDING and |w₂|, ‖w‖ of a neuron that is at w = 0. Chosen, for what its way to there has lost. Were
   it smaller, a crossing would be made of rounding; were it larger, real ones would be left to `settle`. */
#define AT_ZERO_WITHIN 1e3
/* Of wᵀc̄, what of w₂ is nothing. Bound: 4 ε, as in _neurons.py: times B/A are then no times any more. Were it larger,
   a neuron that starts on a line would take the side that it comes to as the one it starts to. */
#define NO_SECOND 1e-15

typedef struct {
    const double *directions, *transposed, *strength, *drift, *gram; /* (lines, dim), (dim, lines), …, (lines, lines) */
    int64_t lines, dim, knows_gram;
} Lines;

typedef struct {
    double *first, *second, *log_size, *time, *side; /* (width, dim), (width), …, (width, lines) */
    uint8_t *sliding, *touching;                     /* (width, lines) */
    double *rate, *unit, *up, *down, *across, *still; /* its modes; unit and across are (width, dim) */
} Neurons;

typedef struct { double rounding, least, inside, nothing, wrong, together; } Floors;

typedef struct {
    int64_t *crossed; /* neuron and line, (room, 2) */
    double *when;     /* (room) */
    double *stretches; /* log_size, rate, up, down, still, unit, across of the stretch that begins; (room, 5 + 2 dim) */
    int64_t room, count;
} Log;

/* Of one neuron, and room to work in. */
typedef struct {
    double *pull, *turned, *new_pull;           /* (dim): c without the lines slid on, with the line flipped, and whole */
    double *free, *towards, *products, *row;    /* (lines): d_lᵀ of c without the lines slid on, of c, of w, and room */
    double *matrix, *sides;                     /* (held, held), (held) */
    int64_t *held, count;                       /* lines slid on */
} Work;

static double inner(const double *one, const double *other, int64_t count) {
    double total = 0.0;
    for (int64_t i = 0; i < count; i++) total += one[i] * other[i];
    return total;
}

static void add(double *out, double factor, const double *row, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] += factor * row[i];
}

/* The solution of a small system, by elimination with row pivots, in place of its right side; infinite if there is
   none. */
static void solve(double *matrix, double *right, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t best = i;
        for (int64_t k = i + 1; k < count; k++)
            if (fabs(matrix[k * count + i]) > fabs(matrix[best * count + i])) best = k;
        if (matrix[best * count + i] == 0.0) {
            for (int64_t k = 0; k < count; k++) right[k] = INFINITY;
            return;
        }
        for (int64_t k = 0; best != i && k < count; k++) {
            const double kept = matrix[i * count + k];
            matrix[i * count + k] = matrix[best * count + k];
            matrix[best * count + k] = kept;
        }
        const double kept = right[i];
        right[i] = right[best];
        right[best] = kept;
        for (int64_t k = i + 1; k < count; k++) {
            const double factor = matrix[k * count + i] / matrix[i * count + i];
            add(matrix + k * count + i, -factor, matrix + i * count + i, count - i);
            right[k] -= factor * right[i];
        }
    }
    for (int64_t i = count - 1; i >= 0; i--) {
        right[i] -= inner(matrix + i * count + i + 1, right + i + 1, count - i - 1);
        right[i] /= matrix[i * count + i];
    }
}

PUBLIC void biasfree_solve(double *matrix, double *right, int64_t count) { solve(matrix, right, count); }

typedef struct {
    double wait;
    int64_t line; /* −1: w₂ = 0 while sliding */
} Next;

typedef struct { double growth, shrunk; int64_t line; } Earliest; /* e^{rate·wait}, its inverse, and where */

/* A zero of ς_l d_lᵀw at which it falls, if it comes before the earliest so far. */
static void consider(Earliest *earliest, double growth, double pace, double up, double down, int64_t line) {
    if (1.0 < growth && growth < earliest->growth && pace * (up * growth - down / growth) < 0.0) {
        earliest->growth = growth;
        earliest->shrunk = 1.0 / growth;
        earliest->line = line;
    }
}

/* Time to the next switch, and its line. Between switches ς_l d_lᵀw is quadratic in e^{rate·t}, times e^{−rate·t}. */
static Next next_switch(const Neurons *n, int64_t h, const Lines *lines, const Work *work, double size,
                        const Floors *floors) {
    const double up = n->up[h], down = n->down[h], rate = n->rate[h];
    const int becomes = fabs(n->second[h]) <= NO_SECOND * fabs(up + down); /* w₂ is nothing beside what it becomes */
    const double second = becomes ? up + down : n->second[h];
    const double *side = n->side + h * lines->lines;
    const uint8_t *sliding = n->sliding + h * lines->lines, *touching = n->touching + h * lines->lines;
    Earliest earliest = {INFINITY, 0.0, 0};
    int slides = 0;
    if (rate == 0.0) return (Next){INFINITY, 0};
    const double inverse = 1.0 / rate;
    for (int64_t k = 0; k < lines->lines; k++) {
        if (sliding[k]) {
            slides = 1;
            continue;
        }
        const double along = inverse * work->towards[k], pace = side[k] * along, product = work->products[k];
        const double heads = side[k] * work->towards[k] * (second > 0.0 ? 1.0 : second < 0.0 ? -1.0 : 0.0);
        if (touching[k]) {
            /* Where several lines meet, a later decision on one may turn it back to another, which it has just left. */
            if (heads < -floors->wrong) return (Next){0.0, k};
            if (!becomes) consider(&earliest, down / up, pace, up, down, k);
            continue;
        }
        if (fabs(product) <= floors->rounding * size && heads < -floors->wrong) return (Next){0.0, k};
        const double quadratic = along * up, linear = product - (up + down) * along, constant = along * down;
        /* Most lines are out of the question: g = ς_l d_lᵀw only grows, or rises and falls and has not fallen below zero
           by the time of the first switch so far. */
        if (pace * up >= 0.0) {
            if (pace * (up - down) >= 0.0) continue;
        } else if (side[k] * product >= 0.0 &&
                   side[k] * (linear + quadratic * earliest.growth + constant * earliest.shrunk) >= 0.0) {
            continue;
        }
        const double square = linear * linear - 4.0 * quadratic * constant;
        if (!(square >= 0.0)) continue;
        const double root = sqrt(square), half = linear >= 0.0 ? -0.5 * (linear + root) : -0.5 * (linear - root);
        consider(&earliest, half / quadratic, pace, up, down, k);
        consider(&earliest, constant / half, pace, up, down, k);
    }
    const double wait = log(earliest.growth) / rate;
    if (slides && 1.0 < down / up && down / up < INFINITY) {
        const double turn = 0.5 * log(down / up) / rate;
        if (turn < wait) return (Next){turn, -1};
    }
    return (Next){wait, earliest.line};
}

/* d_lᵀ of a vector, on all lines. */
static void against(const double *vector, const Lines *lines, double *out) {
    memset(out, 0, sizeof(double) * (size_t)lines->lines);
    for (int64_t j = 0; j < lines->dim; j++) add(out, vector[j], lines->transposed + j * lines->lines, lines->lines);
}

/* d_lᵀ of a line's own direction, on all lines. */
static const double *between(int64_t line, const Lines *lines, double *room) {
    if (lines->knows_gram) return lines->gram + line * lines->lines;
    against(lines->directions + line * lines->dim, lines, room);
    return room;
}

/* c without the lines slid on, and d_lᵀ of it and of w: all sums of one neuron, formed anew. */
static void form_sums(const Neurons *n, int64_t h, const Lines *lines, Work *work) {
    const uint8_t *sliding = n->sliding + h * lines->lines;
    memcpy(work->pull, lines->drift, sizeof(double) * (size_t)lines->dim);
    for (int64_t k = 0; k < lines->lines; k++)
        if (!sliding[k])
            add(work->pull, n->side[h * lines->lines + k] * lines->strength[k], lines->directions + k * lines->dim,
                lines->dim);
    against(work->pull, lines, work->free);
    against(n->first + h * lines->dim, lines, work->products);
}

static void begin(const Neurons *n, int64_t h, const Lines *lines, Work *work) {
    work->count = 0;
    for (int64_t k = 0; k < lines->lines; k++)
        if (n->sliding[h * lines->lines + k]) work->held[work->count++] = k;
    form_sums(n, h, lines, work);
    against(n->unit + h * lines->dim, lines, work->towards);
    for (int64_t k = 0; k < lines->lines; k++) work->towards[k] *= n->rate[h];
}

/* ς on the lines slid on that make d_lᵀc = 0 there, from `turned`, c without them. */
static void find_sides(const Lines *lines, Work *work) {
    const int64_t count = work->count, dim = lines->dim;
    for (int64_t i = 0; i < count; i++) {
        const double *one = lines->directions + work->held[i] * dim;
        work->sides[i] = -inner(one, work->turned, dim);
        for (int64_t k = 0; k < count; k++)
            work->matrix[i * count + k] =
                inner(one, lines->directions + work->held[k] * dim, dim) * lines->strength[work->held[k]];
    }
    solve(work->matrix, work->sides, count);
}

/* Move a neuron by its closed form, to its next switch; its size goes to log_size. */
static void wait_for(double wait, const Neurons *n, int64_t h, const Lines *lines, Work *work) {
    const int64_t dim = lines->dim;
    double *first = n->first + h * dim;
    const double phase = n->rate[h] * wait, lift = n->up[h] != 0.0 ? phase : 0.0;
    const double grown = n->up[h], shrunk = n->down[h] * exp(-phase - lift), stays = exp(-lift);
    double whole = fabs(n->second[h] = grown - shrunk);
    for (int64_t j = 0; j < dim; j++) {
        first[j] = stays * n->across[h * dim + j] + (grown + shrunk) * n->unit[h * dim + j];
        whole = largest(whole, fabs(first[j]));
    }
    n->second[h] /= whole;
    for (int64_t j = 0; j < dim; j++) first[j] /= whole;
    const double turns = (grown + shrunk - stays * (n->up[h] + n->down[h])) / n->rate[h];
    for (int64_t k = 0; k < lines->lines; k++) {
        work->products[k] = (stays * work->products[k] + turns * work->towards[k]) / whole;
        n->touching[h * lines->lines + k] = n->touching[h * lines->lines + k] && wait <= 0.0;
    }
    n->log_size[h] += lift + log(whole);
    n->time[h] += wait;
}

/* Whether a neuron is let through the line it has met, flipped, and goes on sliding where it slid. */
static int is_plain(const Neurons *n, int64_t h, int64_t line, double kick, const Lines *lines, Work *work,
                    const Floors *floors) {
    const int64_t dim = lines->dim;
    const double *d = lines->directions + line * dim;
    int plain = 1;
    memcpy(work->turned, work->pull, sizeof(double) * (size_t)dim);
    add(work->turned, kick, d, dim);
    memcpy(work->new_pull, work->turned, sizeof(double) * (size_t)dim);
    find_sides(lines, work);
    for (int64_t i = 0; i < work->count; i++) {
        const int64_t held = work->held[i];
        plain = plain && fabs(work->sides[i]) < floors->inside;
        add(work->new_pull, work->sides[i] * lines->strength[held], lines->directions + held * dim, dim);
    }
    const double through = -n->side[h * lines->lines + line] * n->second[h] * inner(d, work->new_pull, dim);
    const double margin = floors->least * fabs(n->second[h]) *
                          (sqrt(inner(work->new_pull, work->new_pull, dim)) + fabs(lines->strength[line]));
    return plain && (through > margin || n->second[h] * lines->strength[line] >= 0.0);
}

/* The line is passed: new sides, and the sums that follow. */
static void pass(const Neurons *n, int64_t h, int64_t line, double kick, const Lines *lines, Work *work, int64_t *since) {
    const int64_t count = lines->lines;
    n->side[h * count + line] = -n->side[h * count + line];
    n->touching[h * count + line] = 1;
    memcpy(work->pull, work->turned, sizeof(double) * (size_t)lines->dim);
    if (++*since == AFRESH) {
        *since = 0;
        form_sums(n, h, lines, work);
    } else {
        add(work->free, kick, between(line, lines, work->row), count);
    }
    work->products[line] = 0.0;
    memcpy(work->towards, work->free, sizeof(double) * (size_t)count);
    for (int64_t i = 0; i < work->count; i++) {
        const int64_t held = work->held[i];
        n->side[h * count + held] = work->sides[i];
        add(work->towards, work->sides[i] * lines->strength[held], between(held, lines, work->row), count);
    }
}

/* A neuron's modes under its new c. */
static void find_modes(const Neurons *n, int64_t h, const Lines *lines, const Work *work, const Floors *floors) {
    const int64_t dim = lines->dim;
    double *unit = n->unit + h * dim, *across = n->across + h * dim;
    const double *first = n->first + h * dim;
    double rate = sqrt(inner(work->new_pull, work->new_pull, dim));
    if (rate <= floors->nothing) rate = 0.0;
    n->rate[h] = rate;
    for (int64_t j = 0; j < dim; j++) unit[j] = rate > 0.0 ? work->new_pull[j] / rate : 0.0;
    const double aligned = inner(unit, first, dim);
    for (int64_t j = 0; j < dim; j++) across[j] = first[j] - aligned * unit[j];
    const double floor = floors->rounding * (fabs(n->second[h]) + sqrt(inner(first, first, dim)));
    n->up[h] = 0.5 * (aligned + n->second[h]);
    n->down[h] = 0.5 * (aligned - n->second[h]);
    if (rate == 0.0 || fabs(n->up[h]) <= floor) n->up[h] = 0.0;
    if (rate == 0.0 || fabs(n->down[h]) <= floor) n->down[h] = 0.0;
    n->still[h] = rate == 0.0 ? n->second[h] : 0.0;
}

static void note(const Neurons *n, int64_t h, int64_t line, int64_t dim, Log *record) {
    double *entry = record->stretches + record->count * (5 + 2 * dim);
    record->crossed[2 * record->count] = h;
    record->crossed[2 * record->count + 1] = line;
    record->when[record->count] = n->time[h];
    entry[0] = n->log_size[h];
    entry[1] = n->rate[h];
    entry[2] = n->up[h];
    entry[3] = n->down[h];
    entry[4] = n->still[h];
    memcpy(entry + 5, n->unit + h * dim, sizeof(double) * (size_t)dim);
    memcpy(entry + 5 + dim, n->across + h * dim, sizeof(double) * (size_t)dim);
    record->count++;
}

/* Whether a neuron that slides meets other lines too: those that depend on the one it has met and on those slid on. */
static int meets_more(const Neurons *n, int64_t h, int64_t line, const Lines *lines, const Work *work, double near) {
    const uint8_t *sliding = n->sliding + h * lines->lines, *touching = n->touching + h * lines->lines;
    if (work->count == 0) return 0;
    for (int64_t k = 0; k < lines->lines; k++)
        if (k != line && !sliding[k] && !touching[k] && fabs(work->products[k]) <= near) return 1;
    return 0;
}

/* Take one neuron through its plain crossings before `until`; why it is left, and the line it has met. */
static int64_t follow_one(const Neurons *n, int64_t h, double until, const Lines *lines, const Floors *floors,
                          Work *work, Log *record, int64_t *met) {
    const int64_t dim = lines->dim;
    double *first = n->first + h * dim;
    int64_t since = 0;
    begin(n, h, lines, work);
    while (record->count < record->room) {
        const Next next = next_switch(n, h, lines, work, sqrt(inner(first, first, dim)), floors);
        if (next.wait == INFINITY || !(n->time[h] + next.wait <= until)) return FINISHED;
        wait_for(next.wait, n, h, lines, work);
        *met = next.line;
        if (next.line >= 0 && n->touching[h * lines->lines + next.line] && next.wait <= 0.0) return MET;
        const double size = sqrt(inner(first, first, dim));
        if (next.line < 0 || size <= AT_ZERO_WITHIN * floors->rounding * fabs(n->second[h]) || n->second[h] == 0.0)
            return MET;
        if (meets_more(n, h, next.line, lines, work, floors->together * size)) return MET;
        const double *d = lines->directions + next.line * dim;
        add(first, -inner(first, d, dim), d, dim);
        const double kick = -2.0 * n->side[h * lines->lines + next.line] * lines->strength[next.line];
        if (!is_plain(n, h, next.line, kick, lines, work, floors)) return MET;
        pass(n, h, next.line, kick, lines, work, &since);
        find_modes(n, h, lines, work, floors);
        note(n, h, next.line, dim, record);
    }
    return FULL;
}

/* Take each neuron of a list through its plain crossings before `until`, until the record is full. */
PUBLIC void biasfree_follow(const int64_t *which, int64_t count, double until, const Lines *lines, const Neurons *n,
                            const Floors *floors, Work *work, Log *record, int64_t *why, int64_t *met) {
    for (int64_t i = 0; i < count; i++) {
        met[i] = -1;
        why[i] = follow_one(n, which[i], until, lines, floors, work, record, met + i);
    }
}
