package exec

import "github.com/onnxmem/onnxmem/vm/internal/store"

// scratch is the memory in which kernels work, and what the prepared ones ask for.
type scratch struct {
	block        *store.Block
	shared, each int // bytes: for all parts of a kernel, for each worker
	keep         int // and for what nodes keep during a loop, at most
	keeps        int // of the loop that is being prepared, so far
	rounds       uint64
	largest      *step // whose kernel asked for the most
}
