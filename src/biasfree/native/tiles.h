/* Products of matrices in tiles that are held in registers, and what classes make of their outputs; included by wide.c
   once for each kind of processor, which says by ON(name) what the functions are called, by KIND how they are compiled,
   by PLUS(sum, one, other) how a product is added, by MOST(one, other) how the larger number is taken and by
   CHOSEN(where, one, other) how a choice is made.

   A tile has up to four rows and three fours of columns, or eight rows of one: these twelve sums, a row's three fours
   and one factor are the sixteen vector registers that AVX2 has. */

#define INLINE static inline __attribute__((always_inline))

/* s(z) of so many numbers, fours: z in front of its line, slope·z behind it, which is less as the slope is below
   one. */
KIND static void ON(shape)(const double *along, int64_t count, double slope, double *to) {
    for (int64_t i = 0; i < count; i += 4) {
        const Four z = *(const Four *)(along + i), behind = slope * z;
        *(Four *)(to + i) = MOST(z, behind);
    }
}

/* Numbers in front of a line as they are, behind it times the slope. */
KIND static void ON(tilt)(const double *along, int64_t count, double slope, double *numbers) {
    const Four none = {0.0, 0.0, 0.0, 0.0};
    for (int64_t i = 0; i < count; i += 4) {
        const Four z = *(const Four *)(along + i), here = *(const Four *)(numbers + i), behind = slope * here;
        *(Four *)(numbers + i) = CHOSEN(z > none, here, behind);
    }
}

/* to = a·b, or to += a·b, for `rows` rows and `fours` fours of columns, both known where it is inlined; as is whether
   all columns of a are taken, or only those it names. */
KIND INLINE void ON(tile)(Factor a, const double *b, int64_t b_row, int64_t length, double *to, int64_t to_row, int rows,
                          int fours, int add, int all) {
    const Four none = {0.0, 0.0, 0.0, 0.0};
    Four sums[8][3];
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < fours; n++) sums[r][n] = add ? *(const Four *)(to + r * to_row + 4 * n) : none;
    for (int64_t i = 0; i < length; i++) {
        const int64_t column = all ? i * a.step : a.kept[i];
        Four right[3];
        for (int n = 0; n < fours; n++) right[n] = *(const Four *)(b + i * b_row + 4 * n);
        for (int r = 0; r < rows; r++) {
            const double one = a.at[r * a.row + column];
            const Four left = {one, one, one, one};
            for (int n = 0; n < fours; n++) sums[r][n] = PLUS(sums[r][n], left, right[n]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < fours; n++) *(Four *)(to + r * to_row + 4 * n) = sums[r][n];
}

/* All rows of some columns: of b only these are read, again and again. */
KIND INLINE void ON(tiles)(Factor a, const double *b, int64_t b_row, int64_t length, double *to, int64_t to_row,
                           int64_t rows, int fours, int add, int all) {
    if (fours == 1) /* a sum waits for the one before: eight of them do not */
        for (; rows >= 8; rows -= 8, a.at += 8 * a.row, to += 8 * to_row)
            ON(tile)(a, b, b_row, length, to, to_row, 8, fours, add, all);
    for (; rows >= 4; rows -= 4, a.at += 4 * a.row, to += 4 * to_row)
        ON(tile)(a, b, b_row, length, to, to_row, 4, fours, add, all);
    if (rows == 3) ON(tile)(a, b, b_row, length, to, to_row, 3, fours, add, all);
    if (rows == 2) ON(tile)(a, b, b_row, length, to, to_row, 2, fours, add, all);
    if (rows == 1) ON(tile)(a, b, b_row, length, to, to_row, 1, fours, add, all);
}

KIND INLINE void ON(all_tiles)(Factor a, const double *b, int64_t b_row, int64_t length, double *to, int64_t to_row,
                               int64_t rows, int64_t columns, int add, int all) {
    int64_t n = 0;
    for (; n + 12 <= columns; n += 12) ON(tiles)(a, b + n, b_row, length, to + n, to_row, rows, 3, add, all);
    if (n + 8 <= columns) {
        ON(tiles)(a, b + n, b_row, length, to + n, to_row, rows, 2, add, all);
        n += 8;
    }
    if (n < columns) ON(tiles)(a, b + n, b_row, length, to + n, to_row, rows, 1, add, all);
}

/* to = a·b, or to += a·b where a has all its columns, (rows, length)·(length, columns); columns are fours. */
KIND static void ON(product)(Factor a, const double *b, int64_t b_row, int64_t length, double *to, int64_t to_row,
                             int64_t rows, int64_t columns, int add) {
    if (add)
        ON(all_tiles)(a, b, b_row, length, to, to_row, rows, columns, 1, 1);
    else if (!a.kept)
        ON(all_tiles)(a, b, b_row, length, to, to_row, rows, columns, 0, 1);
    else
        ON(all_tiles)(a, b, b_row, length, to, to_row, rows, columns, 0, 0);
}

/* to += a·qᵀ for `rows` rows and `columns` outputs, over all lines. */
KIND INLINE void ON(dot)(const double *a, const double *q, int64_t lines, double *to, int64_t to_row, int rows,
                         int columns) {
    const Four none = {0.0, 0.0, 0.0, 0.0};
    Four sums[4][3];
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < columns; k++) sums[r][k] = none;
    for (int64_t line = 0; line < lines; line += 4) {
        Four right[3];
        for (int k = 0; k < columns; k++) right[k] = *(const Four *)(q + k * lines + line);
        for (int r = 0; r < rows; r++) {
            const Four left = *(const Four *)(a + r * lines + line);
            for (int k = 0; k < columns; k++) sums[r][k] = PLUS(sums[r][k], left, right[k]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < columns; k++)
            to[r * to_row + k] += (sums[r][k][0] + sums[r][k][1]) + (sums[r][k][2] + sums[r][k][3]);
}

KIND INLINE void ON(some_dots)(const double *a, const double *q, int64_t lines, double *to, int64_t to_row,
                               int64_t columns, int rows) {
    int64_t k = 0;
    for (; columns - k >= 5 || columns - k == 3; k += 3) ON(dot)(a, q + k * lines, lines, to + k, to_row, rows, 3);
    for (; columns - k >= 2; k += 2) ON(dot)(a, q + k * lines, lines, to + k, to_row, rows, 2);
    if (k < columns) ON(dot)(a, q + k * lines, lines, to + k, to_row, rows, 1);
}

KIND static void ON(dots)(const double *a, const double *q, int64_t lines, double *to, int64_t to_row, int64_t rows,
                          int64_t columns) {
    for (; rows >= 4; rows -= 4, a += 4 * lines, to += 4 * to_row) ON(some_dots)(a, q, lines, to, to_row, columns, 4);
    for (; rows > 0; rows--, a += lines, to += to_row) ON(some_dots)(a, q, lines, to, to_row, columns, 1);
}

#define LEAST_POWER (-707.0)        /* e^−707 is 2^-1020: the least exponent of a normal number is −1022 */
#define PER_LN_2 1.4426950408889634 /* 1/ln 2 */
/* ln 2 in two parts, as in fdlibm: the first ends in zeros, so that its product with n is exact. */
#define LN_2 6.93147180369123816490e-01
#define LN_2_REST 1.90821492927058770002e-10
#define EXPONENT 52                 /* bits of a float64 below its exponent */
#define FEW_ODDS 1e-3               /* of ln(1 + x) five terms are enough: the next is x⁵/6 of it, 2e-16 */
#define TERMS 14                    /* of e^x up to x¹³/13!: the next is 4e-18 at |x| = ln 2/2 */

/* e^x of four numbers that are not positive; 0 below 2^-1020. With n = x/ln 2 rounded, e^(x − n ln 2) is its Taylor
   polynomial and n goes to the exponent's bits. */
KIND INLINE void ON(put_exponential)(const Four *numbers, Four *to) {
    static const double digits[TERMS] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}; /* 1/13!, …, 1/0! */
    const Four x = *numbers, least = {LEAST_POWER, LEAST_POWER, LEAST_POWER, LEAST_POWER};
    const Bits in_range = (Bits)(x > least);
    const double whole = 6755399441055744.0; /* 1.5·2^52: what is added to it is rounded, its last bits are n */
    const Four shift = {whole, whole, whole, whole}, shifted = x * PER_LN_2 + shift, n = shifted - shift;
    const Four left = (x - n * LN_2) - n * LN_2_REST;
    Four sum = {digits[0], digits[0], digits[0], digits[0]};
    for (int i = 1; i < TERMS; i++) {
        const Four digit = {digits[i], digits[i], digits[i], digits[i]};
        sum = PLUS(digit, sum, left);
    }
    *to = (Four)(in_range & ((Bits)sum + ((Bits)shifted << EXPONENT))) + 0.0 * x; /* what is no number stays none */
}

/* q of a block whose lines have a sample each, at t = 1, under cross-entropy on the time clock, in place of even: y −
   p, of the class in front from the probability of all others. Returns the samples' losses, summed up: how far the
   class in front is ahead of that of each sample, and ln(1 + odds of all others). Lines that fill the block up have no
   y. */
KIND static double ON(put_class_pulls)(double *even, const double *y, int64_t lines, int64_t outputs, double samples) {
    const Four none = {0.0, 0.0, 0.0, 0.0}, one = {1.0, 1.0, 1.0, 1.0};
    const Four few = {FEW_ODDS, FEW_ODDS, FEW_ODDS, FEW_ODDS};
    Four odds = one, small = none; /* of lines that count once: Π(1 + odds), and Σ ln(1 + odds) where these are small */
    const double share_of_one = 1.0 / samples;
    double total = 0.0;
    for (int64_t line = 0; line < lines; line += 4) {
        Four most = *(const Four *)(even + line), others = none, ahead = none, share = none;
        Bits leads = {0, 0, 0, 0};
        for (int64_t k = 1; k < outputs; k++) {
            const Four f = *(const Four *)(even + k * lines + line);
            const Bits more = (Bits)(f > most), own = {k, k, k, k};
            most = (Four)((more & (Bits)f) | (~more & (Bits)most));
            leads = (more & own) | (~more & leads);
        }
        for (int64_t k = 0; k < outputs; k++) {
            Four *here = (Four *)(even + k * lines + line);
            const Four target = *(const Four *)(y + k * lines + line);
            const Bits own = {k, k, k, k};
            *here -= most;
            ahead -= target * *here;
            share += target;
            ON(put_exponential)(here, here);
            others += (Four)((Bits)*here & (leads != own));
        }
        const Four each = 1.0 / (1.0 + others);
        const Bits counts = (Bits)(share == one), minor = (Bits)(others < few);
        for (int64_t k = 0; k < outputs; k++) {
            Four *here = (Four *)(even + k * lines + line);
            const Four target = *(const Four *)(y + k * lines + line);
            const Bits own = {k, k, k, k}, first = leads == own;
            const Four plain = target - each * *here, leading = each * (target * others - (1.0 - target));
            *here = (Four)((first & (Bits)leading) | (~first & (Bits)plain)) * share_of_one;
        }
        /* The series' next term is below rounding; factors are at most `outputs`, and far too few to overflow. */
        const Four series = others * (1.0 - others * (0.5 - others * (1.0 / 3 - others * (0.25 - others * 0.2))));
        small += (Four)(counts & minor & (Bits)series);
        odds *= 1.0 + (Four)(counts & ~minor & (Bits)others);
        for (int i = 0; i < 4; i++) {
            total += ahead[i];
            if (!counts[i] && share[i] != 0) total += share[i] * log1p(others[i]);
        }
    }
    for (int i = 0; i < 4; i++) total += small[i] + log(odds[i]);
    return total;
}

#undef ON
#undef KIND
#undef PLUS
#undef MOST
#undef CHOSEN
#undef INLINE
#undef LEAST_POWER
#undef PER_LN_2
#undef LN_2
#undef LN_2_REST
#undef EXPONENT
#undef FEW_ODDS
#undef TERMS
