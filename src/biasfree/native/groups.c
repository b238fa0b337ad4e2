/* Parallel rows together: biasfree/dynamics/exact/_merging.py. */

#include "travel.h"

/* Rows of unit length stand in order of their keys, and under one key the largest first. Each that no larger one has
   taken leads a group of all that are within `bound` of it in 1 − cos and have its key; `leader` is its number. Where
   more than `many` rows are left after more than `few` groups, each of them is left by itself. */
PUBLIC void biasfree_alike(const double *units, const double *keys, int64_t count, int64_t columns, double bound,
                           int64_t many, int64_t few, int64_t *leader) {
    int64_t begin = 0;
    for (int64_t i = 0; i < count; i++) leader[i] = -1;
    while (begin < count) {
        int64_t end = begin, groups = 0, left;
        while (end < count && keys[end] == keys[begin]) end++;
        left = end - begin;
        for (int64_t i = begin; i < end; i++) {
            if (leader[i] >= 0) continue;
            const int alone = left > many && groups > few;
            leader[i] = i;
            left--;
            groups++;
            for (int64_t j = i + 1; !alone && j < end; j++) {
                if (leader[j] >= 0 || 1.0 - dot(units + i * columns, units + j * columns, columns) > bound) continue;
                leader[j] = i;
                left--;
            }
        }
        begin = end;
    }
}
