/* Where a row of the plane goes from w = 0, where all lines are met at once.

   The rule is that of `from_zero` in biasfree/switching/_filippov.py: repelling lines are passed straight on,
   attracting ones take the ς that make the pull least, and where that leads to another side of a repelling line than
   was assumed, that side is taken and the rule applied again. It is plain where one line was slid on and at most two
   attract, and where something pulls in the end; else others decide. */

#include "travel.h"

/* Lines that a meeting has room for. Chosen: 512 bytes; with more lines Python decides. */
enum { MOST_LINES = 16 };
/* Turns beyond one for each line. Chosen: ties may flip a line back; where these are not enough Python decides. */
enum { SPARE_TURNS = 2 };
/* Sine of the angle between two lines that are not one. Chosen: solving for both ς divides by it, so that seven digits
   are left. Were it smaller, rounding would decide; were it larger, Python would more often. */
#define INDEPENDENT 1e-9

typedef struct {
    double directions[MOST_LINES][2], strength[MOST_LINES], side[MOST_LINES], drift[2];
    double noise; /* of a pull */
    int64_t lines;
} Meeting;

/* d_lᵀ of a vector. */
static double onto(const Meeting *at, int64_t line, const double *vector) {
    return at->directions[line][0] * vector[0] + at->directions[line][1] * vector[1];
}

static void add_pull(const Meeting *at, int64_t line, double side, double *pull) {
    for (int j = 0; j < 2; j++) pull[j] += side * at->strength[line] * at->directions[line][j];
}

/* What pulls with these sides: all lines, or those that repel. */
static void pull_on(const Meeting *at, int all, double *pull) {
    memcpy(pull, at->drift, sizeof(at->drift));
    for (int64_t line = 0; line < at->lines; line++)
        if (all || at->strength[line] >= 0.0) add_pull(at, line, at->side[line], pull);
}

/* ς of an attracting line that makes its pull beside `rest` least. */
static double least_beside(const Meeting *at, int64_t line, const double *rest) {
    return within_bounds(-onto(at, line, rest) / at->strength[line]);
}

/* ς of two attracting lines, with one of them at a bound; 0 if both may be within theirs, where nothing pulls. */
static int least_of_two(Meeting *at, const int64_t *held, const double *others) {
    const double *one = at->directions[held[0]], *other = at->directions[held[1]];
    const double sine = one[0] * other[1] - one[1] * other[0];
    double best = INFINITY;
    if (!(fabs(sine) > INDEPENDENT)) return 0;
    const double first = (other[0] * others[1] - other[1] * others[0]) / (sine * at->strength[held[0]]);
    const double second = (one[1] * others[0] - one[0] * others[1]) / (sine * at->strength[held[1]]);
    if (!(fabs(first) > 1.0 || fabs(second) > 1.0)) return 0;
    for (int i = 0; i < 2; i++)
        for (double bound = 1.0; bound >= -1.0; bound -= 2.0) {
            double pull[2] = {others[0], others[1]};
            add_pull(at, held[i], bound, pull);
            const double free = least_beside(at, held[1 - i], pull);
            add_pull(at, held[1 - i], free, pull);
            if (!(dot(pull, pull, 2) < best)) continue;
            best = dot(pull, pull, 2);
            at->side[held[i]] = bound;
            at->side[held[1 - i]] = free;
        }
    return 1;
}

/* Sides from those straight on: whether something pulls in the end, which is left in `pull`. */
static int climb(Meeting *at, double *pull) {
    int64_t held[2], count = 0;
    for (int64_t line = 0; line < at->lines; line++)
        if (at->strength[line] < 0.0) {
            if (count == 2) return 0;
            held[count++] = line;
        }
    /* Each turn flips a repelling line for good, but for ties. */
    for (int64_t turn = 0; turn < at->lines + SPARE_TURNS; turn++) {
        int wrong = 0;
        pull_on(at, 0, pull);
        if (count == 1) at->side[held[0]] = least_beside(at, held[0], pull);
        if (count == 2 && !least_of_two(at, held, pull)) return 0;
        for (int64_t i = 0; i < count; i++) add_pull(at, held[i], at->side[held[i]], pull);
        if (!(sqrt(dot(pull, pull, 2)) > at->noise)) return 0;
        for (int64_t line = 0; line < at->lines; line++)
            if (at->strength[line] >= 0.0 && at->side[line] * onto(at, line, pull) < -at->noise) {
                at->side[line] = -at->side[line];
                wrong = 1;
            }
        if (!wrong) return 1;
    }
    return 0;
}

/* What pulls row h, in units of the largest, and sides straight on; the line it slid on as it was. */
static void take_meeting(const Room *room, int64_t h, int64_t which, Meeting *at) {
    const Data *data = room->data;
    const int64_t lines = data->lines, outputs = data->outputs, held = room->pattern->slides[2 * which + 1];
    const double *start = room->desk->rows + START * room->pattern->rows * (2 + outputs), *work = room->desk->work;
    const double *v = start + h * (2 + outputs) + 2, *side = room->pattern->side + h * lines;
    double most = 0.0, free = 0.0;
    *at = (Meeting){.lines = lines};
    for (int64_t line = 0; line < lines; line++) {
        double pull = 0.0;
        for (int64_t k = 0; k < outputs; k++) {
            pull += v[k] * work[k * lines + line];
            at->strength[line] += v[k] * work[(outputs + k) * lines + line];
        }
        for (int j = 0; j < 2; j++) {
            at->directions[line][j] = data->transposed[j * lines + line];
            at->drift[j] += pull * at->directions[line][j];
        }
        at->side[line] = -side[line];
        most = largest(most, fabs(at->strength[line]));
    }
    for (int64_t line = 0; line < lines; line++)
        free -= onto(at, held, at->directions[line]) * side[line] * at->strength[line];
    free -= onto(at, held, at->drift);
    if (at->strength[held] != 0.0) free /= at->strength[held];
    at->side[held] = smallest(1.0, largest(-1.0, free));
    most = largest(most, largest(fabs(at->drift[0]), fabs(at->drift[1])));
    for (int j = 0; j < 2 && most > 0.0; j++) at->drift[j] /= most;
    at->noise = sqrt(dot(at->drift, at->drift, 2));
    for (int64_t line = 0; line < lines; line++) {
        if (most > 0.0) at->strength[line] /= most;
        at->noise += fabs(at->strength[line]);
    }
    at->noise *= AT_A_BOUND;
}

/* Whether nothing pulls straight on, on one side of the line slid on or the other, since no sample is seen. */
static int is_dead(Meeting *at, int64_t held) {
    const double before = at->side[held];
    double pull[2];
    for (double side = 1.0; side >= -1.0; side -= 2.0) {
        at->side[held] = side;
        pull_on(at, 1, pull);
        if (sqrt(dot(pull, pull, 2)) <= at->noise) return 1;
    }
    at->side[held] = before;
    return 0;
}

/* Row h has come to w = 0, sliding: its sides and slide from now on, whether that is plain; else nothing is changed but
   that its w, and those of its passive rows, are zero. */
int leave_zero(const Room *room, int64_t h) {
    Pattern *pattern = room->pattern;
    const Data *data = room->data;
    const int64_t columns = data->dim + data->outputs, lines = data->lines;
    double *start = room->desk->rows + START * pattern->rows * columns, pull[2];
    int64_t which = 0, slides = -1;
    Meeting at;
    for (int64_t row = 0; row < pattern->rows; row++)
        if (pattern->owner[row] == h) memset(start + row * columns, 0, sizeof(double) * (size_t)data->dim);
    if (data->dim != 2 || lines > MOST_LINES) return 0;
    while (which < pattern->count && pattern->slides[2 * which] != h) which++;
    if (which == pattern->count) return 0;
    pulls_at(room, 0.0);
    take_meeting(room, h, which, &at);
    if (!is_dead(&at, pattern->slides[2 * which + 1])) {
        if (!climb(&at, pull)) return 0;
        for (int64_t line = 0; line < lines; line++) {
            const double ahead = onto(&at, line, pull);
            if (at.strength[line] < 0.0 && fabs(at.side[line]) < 1.0)
                slides = slides < 0 ? line : MOST_LINES;
            else if (fabs(ahead) > at.noise)
                at.side[line] = ahead > 0.0 ? 1.0 : -1.0;
        }
    }
    if (slides == MOST_LINES) return 0;
    end_slide(pattern, data, which, 0.0);
    memcpy(pattern->side + h * lines, at.side, sizeof(double) * (size_t)lines);
    if (slides >= 0) begin_slide(pattern, data, h, slides);
    return 1;
}

/* The same by itself, for whoever compares it with `from_zero`: rows are the desk's start. */
PUBLIC int64_t biasfree_leave_zero(const Data *data, Pattern *pattern, const Desk *desk, int64_t h) {
    const Room room = {data, pattern, 0, 0, 0, 0, desk, 0, 0, 0.0, 0.0};
    return leave_zero(&room, h);
}
