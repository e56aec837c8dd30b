package lower

import "github.com/onnxmem/onnxmem/vm/internal/store"

// scratch is the memory in which kernels work, and what the prepared ones ask for.
type scratch struct {
	Block        *store.Block
	Shared, Each int // bytes: for all parts of a kernel, for each worker
	Keep         int // and for what nodes keep during a loop, at most
	keeps        int // of the loop that is being prepared, so far
	rounds       uint64
	Largest      *Step // whose kernel asked for the most
}
