/* What the compiled parts of the exact flow share: the arrays they work on, by name, and what each file offers.

   Arrays are contiguous and belong to Python (biasfree/dynamics/exact/_arrays.py and _data.py have the same structures,
   with the meaning of every member). Nothing is allocated here and nothing is kept between calls, but for the tables of
   the Runge-Kutta methods and, for a moment, threads (crew.c). The equations are those of
   biasfree/dynamics/exact/_data.py. */

#ifndef BIASFREE_ENGINE_H
#define BIASFREE_ENGINE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef _WIN32
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

/* Functions whose loops go entry by entry, or in eight sums, are compiled twice: once for processors that take four
   numbers at a time. Nothing is contracted or summed in another order, so that the numbers are the same. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOUR_AT_A_TIME __attribute__((target_clones("avx2", "default")))
#define WITHIN static inline __attribute__((always_inline)) /* a part of such a function */
#else
#define FOUR_AT_A_TIME
#define WITHIN static inline
#endif

typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));

enum { SQUARE = 0, LOGISTIC = 1, EXPONENTIAL = 2, CROSS_ENTROPY = 3 };
enum { START = 0, PLACE = 1, BEFORE = 2, ERROR = 3, OTHER = 4 };  /* of a desk's rows */
enum { NODES = 8, STAGES = 16 }; /* points of a curve of degree 7, and the most stages of a method (_methods.py) */
enum { DEEPEST = 50 };           /* halvings of a step until float64 ends: 2^-50 is 9e-16, see TOLD_TIMES */
/* Outputs whose numbers fit arrays of a fixed size. Chosen: 512 bytes each; with more outputs crossings end steps,
   instead of being followed by kicks.c, and v of a sliding row that vanishes is left to Python. */
enum { MOST_OUTPUTS = 64 };

/* Marks in the place of a time within a step, x from 0 to 1: any number above 1 would do, so long as they differ. */
#define NO_TIME 2.0 /* it does not happen in this step */
#define NEAR_BY 3.0 /* of a crossing: the row only comes within its group's radius of the line */

/* Beyond a line is a row by this part of its size. Chosen: a few thousand times float64's rounding, 2.2e-16, above what
   sums over inputs make of wᵀd = 0. Were it smaller, rows would cross the line they have just been put on; were it
   larger, events would be later by as much. */
#define BLUR 1e-12
/* Of all pulls together, what rounding may have made of one. Chosen: 16 digits less three that sums of many lose. Were
   it smaller, rounding would decide what rows do; were it larger, weak pulls would count for nothing. */
#define ROUNDING 1e-13
/* Part of a time that float64 still tells apart: about five times its spacing, 2.2e-16. Were it less than one, a step
   might end where it begins. */
#define TOLD_TIMES 1e-15
#define TINY 1e-300 /* more than nothing, less than all that counts: float64's least normal number is 2e-308 */
/* The weight of the lower estimate of an error beside the higher one, and its square: Dormand and Prince's method of
   order 8 in Hairer's program DOP853, err₅²/√(err₅² + 0.01 err₃²). */
#define LOWER 0.1
#define LOWER_SQUARED 0.01 /* written out: 0.1·0.1 is another number of float64 */
/* Times a step's tolerance, how far its curve may be from the last stage's place. Over 40 wide problems 99 of 100 steps
   of each were below 77, single ones at up to 450; 3,700 where a fast direction is at rest to rounding and the step is
   far too long for it, which the step's end does not show (wide seed 523). */
#define CURVE 100.0
/* A row so small is as good as zero. Chosen: its square is none of float64's numbers, which end at 2e-308, and its
   error is 58 digits above them at most. Were it larger, rows would be left out of account that may still grow. */
#define NOTHING 1e-250

typedef struct {
    const double *transposed;  /* (dim, lines) */
    const int64_t *begin;      /* (lines + 1) */
    const double *position;    /* (samples) */
    const double *target;      /* (samples, outputs) */
    const double *powers;      /* (2, lines) */
    const double *sums;        /* (2, outputs, lines) */
    const double *given;       /* (8, 2 outputs, lines), or nothing */
    double a, b, decay, samples, offset, mass, given_at, given_rate;
    int64_t loss, by_loss, gives, dim, lines, outputs;
} Data;

typedef struct {
    double *side;          /* (active, lines) */
    const int64_t *owner;  /* (rows) */
    double *basis;         /* (active, room, dim) */
    int64_t *span;         /* (active) */
    int64_t *slides;       /* (count, 2) */
    double *dual;          /* (count, dim) */
    int64_t active, rows, room, count;
} Pattern;

typedef struct {
    double *constant, *matrix;
    int64_t used;
} Form;

typedef struct { double rtol, atol, energy; } Limits;

typedef struct {
    int64_t number, order, core, stages;
    double grow;
} Method;

typedef struct { double *stages, *powers, *curves, *energies, *lengths; } Trial;

typedef struct { double *rows, *pull, *work, *radius, *stack; } Desk;

typedef struct {
    double *met;     /* (room, 4): row, line, time, depth */
    double *ended;   /* (slides + 1) */
    double *beyond;  /* (8, slides) */
    double *values;  /* (8, 3 slides + 1) */
    int64_t room;
} Sought;

/* Coefficients of the methods, two of them, and of Bernstein's polynomials: _methods.py. */
typedef struct {
    const double *a, *times, *errors, *dense;     /* (2, 16, 16), (2, 16), (2, 3, 16), (2, 8, 16) */
    const double *nodes, *at_nodes, *from_nodes;  /* (8), (8, 8), (8, 8) */
} Tables;

extern Tables TABLES;

/* curves.c */
extern const double COUNTS[NODES]; /* binomials of 7 */
void bernstein(double x, double *weights);

/* field.c */
void outputs_of(const double *z, const Data *data, const double *side, int64_t active, double *work);
void turn_form(const Form *form, const Data *data, const Pattern *pattern, int64_t h, int64_t line);
void given_pulls(const Data *data, double x, double *work);
double pulls_here(const double *z, const Data *data, const Pattern *pattern, double *work);
double pulls_on_rows(const double *z, const Data *data, const Pattern *pattern, const Desk *desk);
double velocity(const Data *data, const Pattern *pattern, const Form *form, double time, const Desk *desk,
                double *stage);

/* losses.c */
double log_loss(const double *work, const Data *data);
void pulls(double *work, const Data *data, double shift);
void bent_pull(const double *z, const Data *data, const double *side, int64_t active, int64_t line, double shift,
               double *work, double *q);

/* step.c */
void add_up(const double *weights, int64_t count, const double *stages, int64_t size, double *total);
typedef struct { double error, stiffness; } Judged;
Judged attempt(int64_t n, int64_t first, double time, double step, double energy, const Data *data,
               const Pattern *pattern, const Form *form, const Limits *limits, const Method *method,
               const double *share, const Trial *trial, const Desk *desk);

/* search.c */
int has_ended(const double *z, const double *work, const Data *data, const Pattern *pattern, int64_t which);
int64_t scan(const double *curve, double begin, double length, double blur, const Data *data, const Pattern *pattern,
             double level, const Desk *desk, const Sought *sought);

/* singular.c */
void rotate(double *left, double *right, int64_t rows, int64_t columns, double dust);

/* balance.c */
typedef struct {
    const double *root;                    /* (active): ±√|‖w‖² − ‖v‖²| when it was made */
    double *size, *faded, *unkept, *lost, *doubt; /* (active): see _balance.py */
    double most;                           /* of `unkept` */
    double decay, made, began, seen; /* times since the run's start: of `root`, of what comes next, and of `size` */
} Own;
void keep_balance(Own *own, double time, const Data *data, const Pattern *pattern, const int64_t *which, int64_t count,
                  double *rows);
int has_faded(const Own *own, const Pattern *pattern);

/* groups.c */
int leans(const double *rows, const Data *data, const Pattern *pattern);
int has_parted(const double *rows, const Pattern *pattern, int64_t columns, double outgrown, double *squares);

/* march.c */
typedef struct {
    double left, smallest, longest, step, per_time, energy, level, rate;
    int64_t stiff, steps;
} Going;
typedef struct {
    double step, smallest, rate;
    int64_t steps, rejected, stiff, crossings;
} Marched;
typedef struct { double *spread, *share; } Apart;  /* (passive) each */
double next_length(double error, const Method *method);
int64_t count_stiff(int64_t stiff, double stiffness, int accepted);
double fastest_rate(double before, const Judged *judged, double length);
double calm_step(double rate, const Method *method);
PUBLIC void biasfree_march(const double *z, const Going *going, const Data *data, const Pattern *pattern,
                           const Form *form, const Limits *limits, const Method *method, const Apart *apart,
                           Own *own, const Trial *trial, const Desk *desk, const Sought *sought,
                           Marched *marched);
void reach_of_groups(const Data *data, const Pattern *pattern, const Apart *apart, const Desk *desk);

static inline double largest(double one, double other) { return one > other ? one : other; }
static inline double smallest(double one, double other) { return one < other ? one : other; }
static inline double size_of(const double *row, int64_t columns) {
    double size = 0.0;
    for (int64_t j = 0; j < columns; j++) size = largest(size, fabs(row[j]));
    return size;
}

#endif
