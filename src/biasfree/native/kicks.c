/* What crossings that just pass make of a step: biasfree/dynamics/exact/_kicks.py has the equations.

   The step is gone through at equal distances. Between two of them each crossing is put where the rows now meet the
   line, its kick is found there, and from then on the row is on the other side. The trapezoidal rule is implicit at the
   point where it ends: a few iterations solve that, since a part of a step is short beside the fastest rate. */

#include "travel.h"

/* Times the kick, the speed across a line at which nothing can hold a row there. From 1 on the row goes on through the
   line; chosen, for what the speed may still change by in the step. Were it larger, more steps would end at their
   crossings. */
#define PASSES 10.0
/* Part of its tolerance by which a row may still change in the iteration at one point. Chosen: 16 points together make
   0.3 of it, as much as _kicks.py allows for the points themselves. */
#define SETTLED 0.02
/* Turns of that iteration. Chosen: where these are not enough the step is too long for it, and ends at its crossing. */
enum { SETTLING_TURNS = 6 };
/* What is taken off the time of a crossing, x ≤ 1, that was gone through, until the end of the sweep: any number above
   1 makes it negative. By this one the time is rounded to 2.2e-16. */
#define GONE_THROUGH 2.0
/* Points since its crossing from which a row must be beyond the line. Chosen: sooner it is so near that the iteration
   may put it back for once. Were it more, rows that turn back would be seen later, at the step's end at the latest. */
enum { A_WHILE = 2 };

typedef struct {
    const int64_t *rows, *lines; /* of the crossings, in order of time */
    double *times;               /* as they seem, and then as they are; or NO_TIME */
    double *begins;              /* d·w of the row as if nothing happened, where it crosses */
    double *kicks, *jumps;       /* along d, of all rows; (crossings, rows) */
    double *base, *rest, *summed; /* F, r and its integral; (points + 1, rows, columns) */
    double *levels, *power;      /* ln L, and what is added to the squared speed; (points + 1) */
    double *slope, *offset;      /* all kicks so far add x·slope + offset to w; (rows, dim) each */
    const double *room;          /* what each active row may be off by */
    double length, noise;        /* of the step; of the pulls, what rounding makes, for |v| = 1 */
    int64_t count, points;
} Passing;

typedef struct {
    const Data *data;
    const Pattern *held, *turned; /* the sides as the step began, and as they are */
    const Form *held_form, *turned_form;
    const double *curve;
    const Desk *desk;
    int64_t size, columns;
} Scene;

static double between(const double *values, double x, int64_t points, int64_t stride) {
    int64_t n = (int64_t)(x * (double)points);
    if (n >= points) n = points - 1;
    const double part = x * (double)points - (double)n;
    return (1.0 - part) * values[n * stride] + part * values[(n + 1) * stride];
}

/* The rows at x as if nothing happened. */
static void unkicked(const Scene *scene, double x, double *z) {
    double weights[NODES];
    bernstein(x, weights);
    memset(z, 0, sizeof(double) * (size_t)scene->size);
    for (int n = 0; n < NODES; n++)
        for (int64_t i = 0; i < scene->size; i++) z[i] += weights[n] * scene->curve[n * scene->size + i];
}

/* What is added to entry j of a row at x, from what is known at point n. */
static double added(const Passing *passing, const Scene *scene, int64_t row, int64_t j, int64_t n, double x) {
    const int64_t dim = scene->data->dim, entry = n * scene->size + row * scene->columns + j;
    const double late = x - (double)n / (double)passing->points;
    double total = passing->summed[entry] + late * passing->rest[entry];
    if (j < dim) total += x * passing->slope[row * dim + j] + passing->offset[row * dim + j];
    return total;
}

/* F at all points. */
static void begin(const Passing *passing, const Scene *scene) {
    double *place = scene->desk->rows + PLACE * scene->size;
    for (int64_t n = 0; n <= passing->points; n++) {
        unkicked(scene, (double)n / (double)passing->points, place);
        velocity(scene->data, scene->held, scene->held_form, 0.0, scene->desk, passing->base + n * scene->size);
        if (!scene->data->by_loss) continue;
        outputs_of(place, scene->data, scene->held->side, scene->held->active, scene->desk->work);
        passing->levels[n] = log_loss(scene->desk->work, scene->data);
    }
}

/* Crossing c between the points n − 1 and n: where it is now, its kick, and the row's new side. It stays as it was if
   it is later than that; 0 if its row might be held. */
static int cross(const Passing *passing, const Scene *scene, int64_t c, int64_t n) {
    const Data *data = scene->data;
    const Pattern *pattern = scene->turned;
    const int64_t row = passing->rows[c], line = passing->lines[c], dim = data->dim, outputs = data->outputs;
    double *side = pattern->side + row * data->lines + line, *z = scene->desk->rows + PLACE * scene->size;
    double x = passing->times[c], speed = 0.0, q[MOST_OUTPUTS];
    unkicked(scene, x, z);
    double late = along(data, z + row * scene->columns, line); /* 0, but for one that is met because of others */
    for (int64_t j = 0; j < dim; j++) {
        const double d = data->transposed[j * data->lines + line];
        late += d * added(passing, scene, row, j, n - 1, x);
        speed += d * (between(passing->base + row * scene->columns + j, x, passing->points, scene->size) +
                      (passing->slope[row * dim + j] +
                       passing->rest[(n - 1) * scene->size + row * scene->columns + j]) / passing->length);
    }
    if (speed != 0.0 && late != 0.0) x = largest(0.0, x - late / (passing->length * speed));
    if (x > (double)n / (double)passing->points) return 1;
    unkicked(scene, x, z);
    const double was = along(data, z + row * scene->columns, line);
    for (int64_t h = 0; h < pattern->rows; h++)
        for (int64_t j = 0; j < scene->columns; j++) z[h * scene->columns + j] += added(passing, scene, h, j, n - 1, x);
    bent_pull(z, data, pattern->side, pattern->active, line,
              data->by_loss ? between(passing->levels, x, passing->points, 1) : 0.0, scene->desk->work, q);
    const double *v = z + row * scene->columns + dim;
    const double kick = -2.0 * passing->length * *side * dot(v, q, outputs);
    const int passes = *side * speed < 0.0 && passing->length * fabs(speed) > PASSES * fabs(kick);
    const int unfelt = fabs(kick) * (1.0 - x) <= UNFELT * passing->room[row];
    if (!passes && !unfelt && fabs(kick) > 2.0 * passing->length * passing->noise * sqrt(dot(v, v, outputs))) return 0;
    for (int64_t h = 0; h < pattern->rows; h++) {
        if (pattern->owner[h] != row) continue;
        const double own = -2.0 * passing->length * *side * dot(z + h * scene->columns + dim, q, outputs);
        double jump = 0.0; /* a passive row meets the line at another time than its owner does */
        if (h != row && passes) jump = kick / (passing->length * speed) * along(data, z + h * scene->columns, line);
        passing->kicks[c * pattern->rows + h] = own;
        passing->jumps[c * pattern->rows + h] = jump;
        for (int64_t j = 0; j < dim; j++) {
            const double d = data->transposed[j * data->lines + line];
            passing->slope[h * dim + j] += own * d;
            passing->offset[h * dim + j] += (jump - own * x) * d;
        }
    }
    passing->times[c] = x - GONE_THROUGH;
    passing->begins[c] = was;
    *side = -*side;
    if (scene->turned_form->used) turn_form(scene->turned_form, data, pattern, row, line);
    return 1;
}

/* r at point n, by iteration; 0 if that does not settle. */
static int settle(const Passing *passing, const Scene *scene, int64_t n) {
    const int64_t dim = scene->data->dim, size = scene->size, rows = scene->held->rows;
    const double x = (double)n / (double)passing->points, half = 0.5 / (double)passing->points;
    double *z = scene->desk->rows + START * size, *place = scene->desk->rows + PLACE * size;
    double *rest = passing->rest + n * size, *summed = passing->summed + n * size;
    const double *base = passing->base + n * size, *rest_before = rest - size, *summed_before = summed - size;
    unkicked(scene, x, z);
    for (int64_t i = 0; i < size; i++) summed[i] = summed_before[i] + 2.0 * half * rest_before[i];
    for (int round = 0; round < SETTLING_TURNS; round++) {
        int settled = 1;
        for (int64_t h = 0; h < rows; h++)
            for (int64_t j = 0; j < scene->columns; j++) {
                const int64_t i = h * scene->columns + j;
                place[i] = z[i] + summed[i];
                if (j < dim) place[i] += x * passing->slope[h * dim + j] + passing->offset[h * dim + j];
            }
        velocity(scene->data, scene->turned, scene->turned_form, 0.0, scene->desk, rest);
        for (int64_t h = 0; h < rows; h++)
            for (int64_t j = 0; j < scene->columns; j++) {
                const int64_t i = h * scene->columns + j;
                rest[i] = passing->length * (rest[i] - base[i]) - (j < dim ? passing->slope[h * dim + j] : 0.0);
                const double now = summed_before[i] + half * (rest_before[i] + rest[i]);
                if (h < scene->held->active && !(fabs(now - summed[i]) <= SETTLED * passing->room[h])) settled = 0;
                summed[i] = now;
            }
        if (settled) return 1;
    }
    return 0;
}

/* Whether every row is still beyond the lines it has passed a while ago; at the end, beyond all of them. */
static int beyond(const Passing *passing, const Scene *scene, int64_t n) {
    const double *place = scene->desk->rows + PLACE * scene->size;
    const double since = n == passing->points ? 1.0 : (double)(n - A_WHILE) / (double)passing->points;
    for (int64_t c = 0; c < passing->count; c++) {
        if (passing->times[c] >= 0.0 || passing->times[c] + GONE_THROUGH >= since) continue;
        const int64_t entry = passing->rows[c] * scene->data->lines + passing->lines[c];
        if (scene->turned->side[entry] * along(scene->data, place + passing->rows[c] * scene->columns,
                                               passing->lines[c]) <= 0.0) return 0;
    }
    return 1;
}

/* What is added to the squared speed at point n by r, besides its product with the kicks. */
static double power(const Passing *passing, const Scene *scene, int64_t n) {
    const double *base = passing->base + n * scene->size, *rest = passing->rest + n * scene->size;
    double total = 0.0;
    for (int64_t h = 0; h < scene->held->active; h++)
        for (int64_t j = 0; j < scene->columns; j++) {
            const int64_t i = h * scene->columns + j;
            total += 2.0 * base[i] * rest[i] + rest[i] * rest[i] / passing->length;
        }
    return total;
}

/* Take a step of all rows through its crossings; 0 if they cannot be followed. `turned` and its form begin as copies of
   `held` and its form, and end as they are after the step. */
PUBLIC int64_t biasfree_kicks(const double *curve, const Passing *passing, const Data *data, const Pattern *held,
                              const Form *held_form, const Pattern *turned, const Form *turned_form, const Desk *desk) {
    const int64_t columns = data->dim + data->outputs;
    const Scene scene = {data, held, turned, held_form, turned_form, curve, desk, held->rows * columns, columns};
    begin(passing, &scene);
    memset(passing->rest, 0, sizeof(double) * (size_t)scene.size);
    memset(passing->summed, 0, sizeof(double) * (size_t)scene.size);
    passing->power[0] = 0.0;
    for (int64_t n = 1; n <= passing->points; n++) {
        const double x = (double)n / (double)passing->points;
        for (int64_t c = 0; c < passing->count; c++)
            if (passing->times[c] >= 0.0 && passing->times[c] <= x && !cross(passing, &scene, c, n)) return 0;
        if (!settle(passing, &scene, n) || !beyond(passing, &scene, n)) return 0;
        passing->power[n] = power(passing, &scene, n);
    }
    for (int64_t c = 0; c < passing->count; c++)
        passing->times[c] = passing->times[c] < 0.0 ? passing->times[c] + GONE_THROUGH : NO_TIME;
    return 1;
}
