// What the tests of the core have in common.
#ifndef ONNXMEM_CHECK_H
#define ONNXMEM_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const char *test; // the one that runs

#define CHECK(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s: %s:%d: %s\n", test, __FILE__, __LINE__, #x); \
			exit(1); \
		} \
	} while (0)

// draw is the xorshift generator of Marsaglia (2003), on 32 bits.
static inline uint32_t draw(uint32_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 17;
	return *state ^= *state << 5;
}

#endif
