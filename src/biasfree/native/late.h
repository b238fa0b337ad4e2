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

/* late.c */
void weigh(double time, double length, const Modes *modes, double *weights);
void place(const Modes *modes, const double *weights, const double *bend, double *places);

/* light.c */
int64_t ride_along(const Ride *ride, const Drawn *drawn, const Data *data, const Pattern *pattern, const Desk *desk);
void light_paces(const Ride *ride, const double *z, const Data *data, const Pattern *pattern, const Desk *desk,
                 double *paces);

#endif
