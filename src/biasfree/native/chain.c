/* Exponential steps one after the other, in a small network, as long as nothing happens.

   What Python does for one step (biasfree/dynamics/exact/_rest.py and _late.py, which have the rules) costs a few times
   what the numbers of a small network do. The first linearisation is Python's. A step of which anything follows is not
   taken: an event, a group that comes apart, an iteration that diverges, a step that is not worth it. */

#include "late.h"

enum { DONE = 0, ELSE = 1 }; /* why a chain ends */

/* What is needed to go on, numbers of Python's (_rest.py has those that are chosen), and what is changed. */
typedef struct {
    Modes *modes;
    Turned *turned;
    Rows *rows;
    const Rules *rules;
    Solved *solved;
    const Ride *ride;
    Way *way;
    Drawn *drawn;
    const Data *data;
    const Pattern *pattern, *inner; /* of all rows; of those that J is of, and light ones */
    const Desk *desk, *inner_desk;
    const Sought *sought;
    const Apart *apart;
    Own *own, *copy;       /* or nothing */
    double *z;             /* (rows, columns) */
    const int64_t *light;  /* (lights): active rows that J leaves where they are */
    const int64_t *cell;   /* (heavy): places among the heavy rows, cell by cell */
    const int64_t *begin;  /* (cells + 1): where each cell begins */
    double *turn;          /* (heavy, leads), or nothing */
    double *start;         /* (rows of J and light ones, columns) */
    double *velocity;      /* the same */
    double *vectors;       /* (entries, entries) */
    double *slopes;        /* (2 lines outputs, entries) */
    double *tolerances;    /* (heavy columns) */
    double *room;          /* (4 entries + 2 heavy columns + 2 columns, and rows columns) */
    double *ends;          /* (arcs): since the beginning */
    double *stops;         /* (most): ends of steps */
    double light_part, rtol, atol, epsilon, level, least, left, solved_from, growth, shrink, careful, longer, trend;
    double least_error, slow, pace;
    int64_t lights, cells, arcs, at_once, most, tries, look; /* arcs that there is room for, also of one step */
    double time, energy, length, allowed, beyond;
    int64_t taken, drawn_arcs, rejected, evaluations, why;
} Chain;

static int64_t columns_of(const Chain *chain) { return chain->data->dim + chain->data->outputs; }

/* Whether the same rows are heavy ones as when the chain began. */
static int same_are_heavy(const Chain *chain) {
    const int64_t columns = columns_of(chain);
    double whole = 0.0, least = INFINITY, most = 0.0;
    for (int64_t i = 0; i < chain->ride->heavies + chain->lights; i++) {
        const int heavy = i < chain->ride->heavies;
        const double *row = chain->z + columns * (heavy ? chain->ride->heavy[i] : chain->light[i - chain->ride->heavies]);
        double square = 0.0;
        for (int64_t j = 0; j < columns; j++) square += row[j] * row[j];
        whole += square;
        if (heavy) least = smallest(least, square);
        else most = largest(most, square);
    }
    return least > chain->light_part * whole && !(most > chain->light_part * whole);
}

/* Q of every cell that has more rows than columns; others stand for themselves. */
static void turn_cells(Chain *chain) {
    const int64_t columns = columns_of(chain), leads = chain->turned->leads;
    for (int64_t n = 0, first = 0; n < chain->cells; n++) {
        const int64_t *own = chain->cell + chain->begin[n], count = chain->begin[n + 1] - chain->begin[n];
        const int64_t stand = count < columns ? count : columns;
        double *vectors = chain->room;
        if (count > columns) {
            for (int64_t i = 0; i < count; i++)
                for (int64_t j = 0; j < columns; j++)
                    vectors[j * count + i] = chain->z[chain->ride->heavy[own[i]] * columns + j];
            orthonormal(columns, count, vectors, vectors + columns * count);
            for (int64_t i = 0; i < count; i++)
                for (int64_t j = 0; j < columns; j++) chain->turn[own[i] * leads + first + j] = vectors[j * count + i];
        }
        first += stand;
    }
}

/* The rows that J is of, and light ones. */
static void gather_rows(Chain *chain) {
    const int64_t columns = columns_of(chain), leads = chain->turned->leads;
    if (chain->turn) {
        turn_cells(chain);
        memset(chain->start, 0, sizeof(double) * (size_t)(leads * columns));
    }
    for (int64_t h = 0; h < chain->ride->heavies; h++) {
        const double *row = chain->z + chain->ride->heavy[h] * columns;
        if (!chain->turn) memcpy(chain->start + h * columns, row, sizeof(double) * (size_t)columns);
        for (int64_t k = 0; chain->turn && k < leads; k++) {
            const double part = chain->turn[h * leads + k];
            if (part == 0.0) continue;
            for (int64_t j = 0; j < columns; j++) chain->start[k * columns + j] += part * row[j];
        }
    }
    for (int64_t i = 0; i < chain->lights; i++)
        memcpy(chain->start + (leads + i) * columns, chain->z + chain->light[i] * columns,
               sizeof(double) * (size_t)columns);
}

/* J and its modes where the chain stands; whether they were found. */
static int linearise(Chain *chain) {
    const Data *data = chain->data;
    const int64_t leads = chain->turned->leads, entries = chain->modes->entries, columns = columns_of(chain);
    const int64_t pulls = 2 * data->outputs * data->lines;
    double outgoing = 0.0, whole = data->mass;
    gather_rows(chain);
    biasfree_moving(chain->start, data, chain->inner, chain->inner_desk, chain->velocity, &chain->rows->decay);
    const int64_t used = biasfree_jacobian(chain->rows, data, chain->vectors, chain->slopes, chain->room);
    for (int64_t n = 0; n < used; n++) {
        const double *slope = chain->slopes + n * entries;
        for (int64_t i = 0; i < entries; i++)
            for (int64_t j = 0; slope[i] != 0.0 && j < entries; j++)
                chain->vectors[i * entries + j] -= slope[i] * slope[j];
    }
    if (!biasfree_eigen(entries, chain->vectors, chain->turned->rates, chain->room)) return 0;
    for (int64_t i = 0; i < pulls; i++) whole += fabs(chain->inner_desk->work[i]);
    for (int64_t h = 0; h < leads; h++)
        for (int64_t k = data->dim; k < columns; k++) outgoing = largest(outgoing, fabs(chain->start[h * columns + k]));
    chain->turned->noise = chain->modes->noise = chain->epsilon * whole * outgoing;
    biasfree_modes(chain->turned, chain->room);
    chain->evaluations += 1 + entries;
    return 1;
}

/* A step's length, and its error; negative where Newton's method is to be asked. */
static double fit(Chain *chain, double longest, double least) {
    const int64_t columns = columns_of(chain);
    double length = chain->length, error = INFINITY;
    for (int64_t h = 0; h < chain->ride->heavies; h++) {
        const double size = size_of(chain->z + chain->ride->heavy[h] * columns, columns);
        for (int64_t j = 0; j < columns; j++) chain->tolerances[h * columns + j] = chain->atol + chain->rtol * size;
    }
    for (int64_t n = 0; n < chain->tries; n++) {
        length = smallest(smallest(length, longest), chain->left - chain->time);
        biasfree_collocate(length, chain->modes, chain->rules, chain->data, chain->inner, chain->inner_desk,
                           chain->solved);
        if (chain->solved->left == INFINITY && length >= chain->solved_from) return -1.0;
        error = largest(chain->solved->left, chain->solved->error);
        if (error <= 1.0 || length <= least) break;
        chain->rejected++;
        length = largest(least, length * largest(chain->shrink, chain->careful * pow(error, -1.0 / NODES)));
    }
    chain->way->length = length;
    return error;
}

/* The way of the step in arcs; how many of them there are. */
static int64_t draw(Chain *chain) {
    const int64_t size = chain->pattern->rows * columns_of(chain), left = chain->arcs - chain->drawn_arcs;
    const int64_t most = left < chain->at_once ? left : chain->at_once;
    Drawn *drawn = chain->drawn;
    drawn->ends = chain->ends + chain->drawn_arcs;
    if (most == 0) return 0;
    drawn->count = biasfree_grid(chain->way, chain->modes, chain->ride, chain->z, chain->data, chain->pattern, chain->desk,
                                 drawn->room, most, drawn->ends);
    if (drawn->ends[drawn->count - 1] < chain->way->length) return 0;
    for (int64_t n = 0; n < drawn->count * NODES; n++)
        memcpy(drawn->states + n * size, chain->z, sizeof(double) * (size_t)size);
    if (chain->own) {
        Own *copy = chain->copy;
        memcpy((double *)copy->root, chain->own->root, sizeof(double) * (size_t)(6 * chain->pattern->active));
        copy->most = chain->own->most, copy->decay = chain->own->decay, copy->made = chain->own->made;
        copy->began = chain->own->began, copy->seen = chain->own->seen;
    }
    return biasfree_arcs(chain->way, chain->modes, chain->ride, drawn, chain->data, chain->pattern, chain->desk);
}

/* Whether anything happens along some arcs, or the way ends where there are no numbers. */
static int happens(Chain *chain, int64_t arcs) {
    const int64_t size = chain->pattern->rows * columns_of(chain);
    const double *end = chain->drawn->states + (arcs * NODES - 1) * size;
    memcpy(chain->desk->rows + START * size, chain->z, sizeof(double) * (size_t)size);
    reach_of_groups(chain->data, chain->pattern, chain->apart, chain->desk);
    for (int64_t n = 0; n < arcs; n++) {
        if (scan(chain->drawn->curves + n * NODES * size, 0.0, 0.0, BLUR, chain->data, chain->pattern, chain->level,
                 chain->desk, chain->sought) >= 0)
            return 1;
        for (int64_t i = 0; i < NODES * chain->pattern->count; i++)
            chain->beyond = largest(chain->beyond, chain->sought->beyond[i]);
    }
    for (int64_t i = 0; i < size; i++)
        if (!(fabs(end[i]) < INFINITY)) return 1;
    return 0;
}

/* Go to the end of some arcs. */
static void accept(Chain *chain, int64_t arcs, double error) {
    const int64_t size = chain->pattern->rows * columns_of(chain);
    Drawn *drawn = chain->drawn;
    const double reaches = drawn->ends[arcs - 1], began = chain->time;
    for (int64_t n = 0; n < arcs; n++) {
        const double *end = drawn->states + (n * NODES + NODES - 1) * size;
        double *to = n + 1 < arcs ? chain->room : chain->z;
        memcpy(to, end, sizeof(double) * (size_t)size);
        if (n + 1 == arcs || chain->ride->count) /* what is put back on the way is light */
            keep_balance(chain->own, drawn->ends[n], chain->data, chain->pattern, 0, 0, to);
        for (int k = 0; k < NODES; k++) drawn->energies[n * NODES + k] += chain->energy;
    }
    if (chain->own) chain->own->began += reaches;
    chain->energy = drawn->energies[arcs * NODES - 1];
    chain->time = reaches >= chain->left - began ? chain->left : began + reaches;
    for (int64_t n = 0; n < arcs; n++) drawn->ends[n] += began;
    drawn->ends[arcs - 1] = chain->stops[chain->taken++] = chain->time;
    chain->drawn_arcs += arcs;
    drawn->curves += arcs * NODES * size;
    drawn->energies += arcs * NODES;
    const double allowed = chain->way->length * pow(largest(error, chain->least_error), -1.0 / NODES);
    const double trend = chain->allowed > 0.0 ? allowed / chain->allowed : 0.0;
    chain->length = smallest(chain->longer * chain->way->length,
                             allowed * smallest(largest(trend, chain->careful), chain->trend));
    chain->allowed = allowed;
}

/* Whether the network moves so little that it may come to rest. */
static int is_slow(const Chain *chain) {
    const int64_t size = chain->pattern->rows * columns_of(chain);
    const Form none = {0, 0, 0};
    double speed = 0.0, extent = 0.0;
    memcpy(chain->desk->rows + PLACE * size, chain->z, sizeof(double) * (size_t)size);
    velocity(chain->data, chain->pattern, &none, 0.0, chain->desk, chain->drawn->states);
    for (int64_t i = 0; i < size; i++) {
        speed = largest(speed, fabs(chain->drawn->states[i]));
        extent = largest(extent, fabs(chain->z[i]));
    }
    return chain->pace * speed <= chain->slow * extent;
}

/* One step; whether it was taken. */
static int go(Chain *chain) {
    const double least = smallest(chain->least, chain->left - chain->time);
    double fastest = 0.0, force = 0.0;
    if (chain->taken > 0 && !(same_are_heavy(chain) && linearise(chain))) return 0;
    for (int64_t m = 0; m < chain->modes->count; m++) {
        fastest = largest(fastest, chain->modes->rates[m]);
        force = largest(force, fabs(chain->modes->force[m]));
    }
    const double longest = fastest > 0.0 ? chain->growth / fastest : INFINITY;
    if (!(force > 0.0) || longest < least) return 0;
    const double error = fit(chain, longest, least);
    if (!(error >= 0.0 && error <= 1.0)) return 0;
    const int64_t arcs = draw(chain);
    if (arcs == 0 || chain->drawn->ends[arcs - 1] < least || happens(chain, arcs)) return 0;
    accept(chain, arcs, error);
    return 1;
}

/* Take steps from rows `z`, as many as may be. */
PUBLIC void biasfree_chain(Chain *chain) {
    const int64_t columns = columns_of(chain);
    chain->why = DONE;
    while (chain->taken < chain->most && chain->time < chain->left) {
        if (!go(chain)) {
            chain->why = ELSE;
            return;
        }
        if (has_faded(chain->own, chain->pattern)) return;
        if (has_parted(chain->z, chain->pattern, columns, chain->ride->parted, chain->ride->squares)) return;
        if (leans(chain->z, chain->data, chain->pattern)) return;
        if (chain->taken >= chain->look && is_slow(chain)) return;
    }
}
