/* What a row does where it meets a line, and where its slide ends: Filippov's rule, where it is plain.

   With v held, a row obeys ẇ = Σ_l d_l v·(p_l + ς_l q_l). The rules are those of biasfree/dynamics/exact/_sliding.py
   and of biasfree/switching/_filippov.py. */

#include "travel.h"

/* Of the time in which a row moves by its own size, what a group may take to cross as one. Chosen: what is added to the
   differences of its neurons is right to first order in it. Were it smaller, nothing would be added where it still is
   right. */
#define BRIEF 0.05

double dot(const double *one, const double *other, int64_t count) {
    double total = 0.0;
    for (int64_t i = 0; i < count; i++) total += one[i] * other[i];
    return total;
}

/* d_lᵀ of a vector. */
double along(const Data *data, const double *vector, int64_t line) {
    double total = 0.0;
    for (int64_t j = 0; j < data->dim; j++) total += vector[j] * data->transposed[j * data->lines + line];
    return total;
}

/* p and q at the desk's start, to its work; the time since the beginning matters to pulls that are given. */
void pulls_at(const Room *room, double time) {
    const Data *data = room->data;
    const double *start = room->desk->rows + START * room->pattern->rows * (data->dim + data->outputs);
    if (data->gives)
        given_pulls(data, data->given_at + data->given_rate * time, room->desk->work);
    else
        pulls_here(start, data, room->pattern, room->desk->work);
}

/* ẇ of row h from the pulls p and q in the desk's work; decay, which leads across nothing, is left out. */
void pull_of(const Room *room, const double *z, int64_t h, double *moving) {
    const Data *data = room->data;
    const int64_t lines = data->lines, outputs = data->outputs, dim = data->dim;
    const double *work = room->desk->work, *side = room->pattern->side + h * lines, *v = z + dim;
    memset(moving, 0, sizeof(double) * (size_t)dim);
    for (int64_t line = 0; line < lines; line++) {
        double pull = 0.0;
        for (int64_t k = 0; k < outputs; k++)
            pull += v[k] * (work[k * lines + line] + side[line] * work[(outputs + k) * lines + line]);
        for (int64_t j = 0; j < dim; j++) moving[j] += pull * data->transposed[j * lines + line];
    }
    for (int64_t s = 0; s < room->pattern->span[h]; s++) {
        const double *held = room->pattern->basis + (h * room->pattern->room + s) * dim;
        const double part = dot(moving, held, dim);
        for (int64_t j = 0; j < dim; j++) moving[j] -= part * held[j];
    }
}

/* What pulls row h of these v across a line, from the pulls p and q in the desk's work, all its other sides as they
   are. */
Met pulled_across(const Room *room, const double *v, int64_t h, int64_t line) {
    const Data *data = room->data;
    const int64_t lines = data->lines, outputs = data->outputs;
    const double *work = room->desk->work, *side = room->pattern->side + h * lines;
    Met met = {0.0, 0.0, 0.0, 0.0};
    for (int64_t k = 0; k < outputs; k++) met.strength += v[k] * work[(outputs + k) * lines + line];
    for (int64_t i = 0; i <= 2 * outputs * lines; i++) met.whole += fabs(work[i]);
    for (int64_t l = 0; l < lines; l++) {
        double pull = 0.0, between = 0.0;
        for (int64_t k = 0; k < outputs; k++) {
            const double p = work[k * lines + l], q = l == line ? 0.0 : side[l] * work[(outputs + k) * lines + l];
            pull += v[k] * (p + q);
        }
        for (int64_t j = 0; j < data->dim; j++)
            between += data->transposed[j * lines + l] * data->transposed[j * lines + line];
        met.rest += between * pull;
    }
    met.noise = ROUNDING * sqrt(dot(v, v, outputs)) * met.whole;
    return met;
}

void begin_slide(Pattern *pattern, const Data *data, int64_t h, int64_t line) {
    double *basis = pattern->basis + h * pattern->room * data->dim, *dual = pattern->dual + pattern->count * data->dim;
    for (int64_t j = 0; j < data->dim; j++) basis[j] = dual[j] = data->transposed[j * data->lines + line];
    pattern->slides[2 * pattern->count] = h;
    pattern->slides[2 * pattern->count + 1] = line;
    pattern->count++;
    pattern->span[h] = 1;
    pattern->side[h * data->lines + line] = 0.0;
}

void end_slide(Pattern *pattern, const Data *data, int64_t which, double side) {
    const int64_t h = pattern->slides[2 * which], line = pattern->slides[2 * which + 1];
    const size_t after = (size_t)(pattern->count - which - 1);
    memmove(pattern->slides + 2 * which, pattern->slides + 2 * (which + 1), 2 * sizeof(int64_t) * after);
    memmove(pattern->dual + which * data->dim, pattern->dual + (which + 1) * data->dim,
            (size_t)data->dim * sizeof(double) * after);
    pattern->count--;
    pattern->span[h] = 0;
    pattern->side[h * data->lines + line] = side;
}

/* A ς of an attracting line as it may be: bounds are met exactly. */
double within_bounds(double value) {
    return fabs(value) >= 1.0 - AT_A_BOUND ? (value > 0.0 ? 1.0 : -1.0) : value;
}

/* Filippov's ς on a single line that attracts. */
static double least_pull(const Met *met) { return within_bounds(-met->rest / met->strength); }

/* Take the passive rows of row h through an event: neighbours meet the line at other times, by (d·δ)/(d·ẇ), and what
   the velocity changes by there, `change` along d, is added for that long. */
static void carry_over(const Room *room, double *start, int64_t h, int64_t line, double speed, double change,
                       double pull) {
    const Data *data = room->data;
    const Pattern *pattern = room->pattern;
    const int64_t dim = data->dim, columns = dim + data->outputs;
    const double extent = sqrt(dot(start + h * columns, start + h * columns, dim));
    if (speed == 0.0) return;
    for (int64_t row = pattern->active; row < pattern->rows; row++) {
        if (pattern->owner[row] != h) continue;
        double *w = start + row * columns;
        const double apart = along(data, w, line);
        /* Where they cross one after the other for long, the group is parted. */
        if (fabs(apart) * pull > BRIEF * fabs(speed) * extent) continue;
        for (int64_t j = 0; j < dim; j++) w[j] += apart * change / speed * data->transposed[j * data->lines + line];
    }
}

/* Passive rows of row h lie on the line it slides on. */
static void put_on(const Room *room, double *start, int64_t h, int64_t line) {
    const int64_t dim = room->data->dim, columns = dim + room->data->outputs, lines = room->data->lines;
    for (int64_t row = room->pattern->active; row < room->pattern->rows; row++) {
        double *w = start + row * columns;
        if (room->pattern->owner[row] != h) continue;
        const double off = along(room->data, w, line);
        for (int64_t j = 0; j < dim; j++) w[j] -= off * room->data->transposed[j * lines + line];
    }
}

/* Whether w of row h is nothing once it is put on the line it has met: it lay on all others, though it slides on none. */
int is_at_zero(const Room *room, int64_t h, int64_t line) {
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs;
    const double *z = room->desk->rows + START * room->pattern->rows * columns + h * columns, off = along(data, z, line);
    double first = 0.0;
    for (int64_t j = 0; j < data->dim; j++)
        first = largest(first, fabs(z[j] - off * data->transposed[j * data->lines + line]));
    return first <= smallest(NO_W * size_of(z + data->dim, data->outputs), LAST * size_of(z, data->dim));
}

/* Row h is put on the line it has met, and does what the rule says. */
int64_t meet(const Room *room, int64_t h, int64_t line, double time) {
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs;
    double *start = room->desk->rows + START * room->pattern->rows * columns, *z = start + h * columns;
    double *side = room->pattern->side + h * data->lines + line;
    for (int twice = 0; twice < 2; twice++) {
        const double off = along(data, z, line);
        for (int64_t j = 0; j < data->dim; j++) z[j] -= off * data->transposed[j * data->lines + line];
    }
    pulls_at(room, time);
    double *moving = room->desk->pull;
    pull_of(room, z, h, moving);
    const Met met = pulled_across(room, z + data->dim, h, line);
    const double pull = sqrt(dot(moving, moving, data->dim)), was = met.rest + *side * met.strength;
    const double beyond = -*side, speed = met.rest + beyond * met.strength; /* with the new side */
    const int passes = beyond * speed > met.noise || fabs(met.strength) <= met.noise || met.strength >= 0.0;
    const double free = passes ? beyond : least_pull(&met);
    /* A row that its own side hardly moves would meet the line again and again: it is held there, with ς = ±1. */
    if (fabs(free) < 1.0 || (free == *side && *side * was <= met.noise)) {
        carry_over(room, start, h, line, was, -was, pull);
        put_on(room, start, h, line);
        begin_slide(room->pattern, data, h, line);
        return SLIDES;
    }
    if (free == *side) return STAYED;
    carry_over(room, start, h, line, was, 2.0 * beyond * met.strength, pull);
    *side = free;
    return CROSSED;
}

/* The one slide of a row is over, or only seemed to be. */
int64_t leave(const Room *room, int64_t which, double time) {
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs, h = room->pattern->slides[2 * which];
    const double *start = room->desk->rows + START * room->pattern->rows * columns;
    pulls_at(room, time);
    const Met met = pulled_across(room, start + h * columns + data->dim, h, room->pattern->slides[2 * which + 1]);
    const double free = least_pull(&met);
    if (fabs(free) < 1.0) return STAYED;
    end_slide(room->pattern, data, which, free);
    return LEFT;
}

/* What pulls a row across the line it slides on once v, which is zero there, has become what it is pulled to. */
static Met pulled_on(const Room *room, const double *z, int64_t which) {
    const Data *data = room->data;
    const int64_t h = room->pattern->slides[2 * which], lines = data->lines, outputs = data->outputs;
    const double *work = room->desk->work, *side = room->pattern->side + h * lines;
    double way[MOST_OUTPUTS] = {0.0};
    for (int64_t line = 0; line < lines; line++)
        for (int64_t k = 0; k < outputs; k++)
            way[k] += along(data, z, line) * (work[k * lines + line] + side[line] * work[(outputs + k) * lines + line]);
    return pulled_across(room, way, h, room->pattern->slides[2 * which + 1]);
}

/* Whether v of a row that slides on one line vanishes where the desk starts, and the line repels the row from then
   on. */
int has_turned(const Room *room, int64_t which) {
    const Data *data = room->data;
    const int64_t dim = data->dim, outputs = data->outputs, h = room->pattern->slides[2 * which];
    const double *z = room->desk->rows + START * room->pattern->rows * (dim + outputs) + h * (dim + outputs);
    const double first = sqrt(dot(z, z, dim)), second = sqrt(dot(z + dim, z + dim, outputs));
    if (dim < 2 || room->pattern->span[h] != 1 || outputs > MOST_OUTPUTS || data->gives) return 0;
    if (!(first > sqrt(NOTHING)) || !(second <= NO_V * first)) return 0;
    pulls_at(room, 0.0);
    return pulled_on(room, z, which).strength > 0.0;
}

/* v of a row that slides has turned, and it leaves its line to the side of its last ς. */
int64_t turn_over(const Room *room, int64_t which) {
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs, h = room->pattern->slides[2 * which];
    double *z = room->desk->rows + START * room->pattern->rows * columns + h * columns;
    pulls_at(room, 0.0);
    const Met met = pulled_on(room, z, which);
    memset(z + data->dim, 0, sizeof(double) * (size_t)data->outputs);
    end_slide(room->pattern, data, which, met.rest <= 0.0 ? 1.0 : -1.0);
    return BRANCHED;
}
