/* What the parts of an exponential step share: J's modes, rows that ride along, and the way in arcs. */

#ifndef BIASFREE_LATE_H
#define BIASFREE_LATE_H

#include "engine.h"

enum { POINTS = NODES - 1 }; /* of a step beside its beginning, and degrees of what J leaves of the velocity */

/* J's modes, and what a step along them is judged by. */
typedef struct {
    const double *modes;      /* (entries, count) */
    const double *by_mode;    /* (count, entries), the same */
    const double *shown;      /* (count, seen): what each mode moves of the neurons' rows */
    const double *tolerances; /* (seen) */
    const double *rates, *force; /* (count) */
    const double *start;      /* (rows, columns); the first of them are J's */
    double noise;
    int64_t count, entries, seen;
} Modes;

/* What eigenvectors of J are of, and what is made of them. */
typedef struct {
    const double *by_mode;  /* (count, entries): eigenvectors, one in a row; entries are (leads + fades, columns) */
    const double *velocity; /* (entries) */
    const double *turn;     /* (heavy, leads): the neurons' rows from those that stand for them; nothing: the same */
    const double *basis;    /* (dim, columns - outputs), or nothing: w's coordinates (_narrow.py) */
    const double *beside;   /* (heavy, dim): what the last row of J stands for, if it fades */
    double *modes;          /* (entries, count) */
    double *shown;          /* (count, heavy, dim + outputs): what each mode moves of the neurons' rows */
    double *rates, *force;  /* (count) */
    double flat, noise;     /* parts of the fastest rate, and forces, that rounding makes of zero */
    int64_t count, leads, fades, columns, heavy, dim, outputs;
} Turned;

/* How the equations are solved: N at the points → B, what of the last B is an error, what may be left, and turns at
   most. */
typedef struct {
    const double *fit; /* (7, 7) */
    double top, settled;
    int64_t turns;
} Rules;

/* What was found, and room to find it in. */
typedef struct {
    double *bend, *places; /* (7, count) */
    double *weights;       /* (7, 8, count) */
    double *bent;          /* (7, count) */
    double *change;        /* (count) */
    double *moved;         /* (entries) */
    double *shown;         /* (seen) */
    double *stage;         /* (rows, columns) */
    double left, error;
    int64_t evaluations;
} Solved;

/* Rows that J is of, and what pulls them. */
typedef struct {
    const double *z;              /* (count, columns): w and v */
    const double *side;           /* (count, lines) */
    const double *across;         /* (count, dim, dim), or nothing */
    const double *matrices;       /* (count, dim, outputs) */
    const double *roots;          /* (2, lines, outputs, outputs): R with RRᵀ = C± */
    double decay;
    int64_t count;
} Rows;

/* Rows that ride along a way and those that make it; and room: pulls at the nodes and their means, (8, riding, dim,
   outputs) each. */
typedef struct {
    const int64_t *riding, *heavy; /* (count), (heavies) */
    const double *means;           /* (8, 8): values at the nodes → means up to each */
    double *pulls, *mean, *room, *squares; /* (active) of these last ones */
    Own *own;        /* or nothing */
    double outgrown; /* part of all heavy squares at which a row is light no more */
    double parted;   /* squared differences within a group, in units of its row, that part it */
    int64_t count, heavies;
} Ride;

/* A step along J's modes: its length and its B_j; or the way itself and its slope, where Newton's method found it. */
typedef struct {
    const double *bend;          /* (7, modes) */
    const double *curve, *slope; /* (8, modes), or nothing */
    double length;
    double growth; /* of a light row over an arc at most, in e-folds */
} Way;

/* The way of all rows in arcs, one after the other. */
typedef struct {
    double *ends;     /* (arcs): since the step's beginning */
    double *states;   /* (arcs, 8, rows, columns): at the nodes; where the step begins, to start with */
    double *curves;   /* the same, by Bernstein coefficients */
    double *energies; /* (arcs, 8): curves of ∫‖Ẇ‖² since the step's beginning */
    double *room;     /* (17, modes), and what they move */
    int64_t count;
} Drawn;

/* field.c */
PUBLIC double biasfree_moving(const double *z, const Data *data, const Pattern *pattern, const Desk *desk, double *stage,
                              double *decay);

/* jacobian.c */
PUBLIC int64_t biasfree_jacobian(const Rows *rows, const Data *data, double *jacobian, double *slopes, double *room);

/* eigen.c */
void orthonormal(int64_t columns, int64_t size, double *vectors, double *room);
PUBLIC int64_t biasfree_eigen(int64_t size, double *matrix, double *values, double *room);

/* late.c */
void weigh(double time, double length, const Modes *modes, double *weights);
void place(const Modes *modes, const double *weights, const double *bend, double *places);
PUBLIC void biasfree_modes(const Turned *turned, double *room);
PUBLIC void biasfree_collocate(double length, const Modes *modes, const Rules *rules, const Data *data,
                               const Pattern *pattern, const Desk *desk, Solved *solved);

/* light.c */
int64_t ride_along(const Ride *ride, const Drawn *drawn, const Data *data, const Pattern *pattern, const Desk *desk);
void light_paces(const Ride *ride, const double *z, const Data *data, const Pattern *pattern, const Desk *desk,
                 double *paces);

/* arcs.c */
PUBLIC int64_t biasfree_grid(const Way *way, const Modes *modes, const Ride *ride, const double *z, const Data *data,
                             const Pattern *pattern, const Desk *desk, double *parts, int64_t most, double *ends);
PUBLIC int64_t biasfree_arcs(const Way *way, const Modes *modes, const Ride *ride, const Drawn *drawn, const Data *data,
                             const Pattern *pattern, const Desk *desk);

#endif
