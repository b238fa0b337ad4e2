/* Work that several threads share. */

#ifndef BIASFREE_CREW_H
#define BIASFREE_CREW_H

#include <stdint.h>

/* Do `work`, here and in up to threads − 1 helpers beside, until it has returned everywhere. It must take its parts one
   by one, so that it does not matter who does how many. */
void together(void (*work)(void *), void *shared, int64_t threads);

#endif
