// The layout of queries, keys and values.
#pragma once
#include "prelude.cuh"

// Heads are the steps from one batch, head and position to the next, in elements.
struct Heads { i64 batch, head, position; };
