/* Products of matrices in tiles that are held in registers; included by wide.c once for each kind of processor, which says
   by ON(name) what the functions are called, by KIND how they are compiled and by PLUS(sum, one, other) how a product is
   added. */

/* to = a·b, or to += a·b, for `rows` rows and `fours` fours of columns, both known where it is inlined. */
KIND static inline __attribute__((always_inline)) void ON(tile)(Factor a, const double *b, int64_t b_row, int64_t length,
                                                                double *to, int64_t to_row, int rows, int fours, int add) {
    const Four none = {0.0, 0.0, 0.0, 0.0};
    Four sums[8][3];
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < fours; n++) sums[r][n] = add ? *(const Four *)(to + r * to_row + 4 * n) : none;
    for (int64_t i = 0; i < length; i++) {
        Four right[3];
        for (int n = 0; n < fours; n++) right[n] = *(const Four *)(b + i * b_row + 4 * n);
        for (int r = 0; r < rows; r++) {
            const double one = a.at[r * a.row + i * a.step];
            const Four left = {one, one, one, one};
            for (int n = 0; n < fours; n++) sums[r][n] = PLUS(sums[r][n], left, right[n]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < fours; n++) *(Four *)(to + r * to_row + 4 * n) = sums[r][n];
}

KIND static inline __attribute__((always_inline)) void ON(tiles)(Factor a, const double *b, int64_t b_row, int64_t length,
                                                                 double *to, int64_t to_row, int64_t columns, int rows,
                                                                 int add) {
    int64_t n = 0;
    for (; n + 12 <= columns; n += 12) ON(tile)(a, b + n, b_row, length, to + n, to_row, rows, 3, add);
    if (n + 8 <= columns) {
        ON(tile)(a, b + n, b_row, length, to + n, to_row, rows, 2, add);
        n += 8;
    }
    if (n < columns) ON(tile)(a, b + n, b_row, length, to + n, to_row, rows, 1, add);
}

KIND static inline __attribute__((always_inline)) void ON(all_tiles)(Factor a, const double *b, int64_t b_row,
                                                                     int64_t length, double *to, int64_t to_row,
                                                                     int64_t rows, int64_t columns, int add) {
    if (columns == 4) /* a sum waits for the one before: eight of them do not */
        for (; rows >= 8; rows -= 8, a.at += 8 * a.row, to += 8 * to_row)
            ON(tile)(a, b, b_row, length, to, to_row, 8, 1, add);
    for (; rows >= 4; rows -= 4, a.at += 4 * a.row, to += 4 * to_row)
        ON(tiles)(a, b, b_row, length, to, to_row, columns, 4, add);
    if (rows == 3) ON(tiles)(a, b, b_row, length, to, to_row, columns, 3, add);
    if (rows == 2) ON(tiles)(a, b, b_row, length, to, to_row, columns, 2, add);
    if (rows == 1) ON(tiles)(a, b, b_row, length, to, to_row, columns, 1, add);
}

/* to = a·b, or to += a·b, (rows, length)·(length, columns); columns are fours. */
KIND static void ON(product)(Factor a, const double *b, int64_t b_row, int64_t length, double *to, int64_t to_row,
                             int64_t rows, int64_t columns, int add) {
    if (add)
        ON(all_tiles)(a, b, b_row, length, to, to_row, rows, columns, 1);
    else
        ON(all_tiles)(a, b, b_row, length, to, to_row, rows, columns, 0);
}

#undef ON
#undef KIND
#undef PLUS
