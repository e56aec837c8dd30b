package vm

// Memory lists the memory of a session, in bytes.
type Memory struct {
	ArenaBytes    int64
	StateBytes    int64 // parameters and states, in the resident pool
	DynamicBytes  int64 // tensors that the plan leaves out, so far
	ScratchBytes  int64 // of kernels
	TableBytes    int64 // tables that kernels keep
	HostBytes     int64 // the host pool, in memory or in a file
	DecodedBytes  int64 // constants that the file encodes differently, and copies of small ones; shared by sessions
	PackedBytes   int64 // weights in the layout of the micro-kernels; shared by sessions
	FileBytes     int64 // constants that kernels read in mapped files; shared by sessions
	SeparateBytes int64 // with Options.Separate or Options.Guard: all tensors
	HeapBytes     int64 // Go's heap for nodes and tensors, estimated from above
}

// Bytes is the sum of all but the shared and the host bytes.
func (m Memory) Bytes() int64 {
	return m.ArenaBytes + m.StateBytes + m.DynamicBytes + m.ScratchBytes + m.TableBytes + m.SeparateBytes + m.HeapBytes
}

// Memory returns the session's current use of memory.
func (s *Session) Memory() Memory { return Memory(s.x.Memory()) }

// Dynamic says how the tensors that the plan leaves out were placed so far. Of a session for
// ranges of dimensions, it is the sum over its points.
func (s *Session) Dynamic() ReplayUse { return ReplayUse(s.x.Dynamic()) }
