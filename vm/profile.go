package vm

import (
	"io"

	"github.com/onnxmem/onnxmem/vm/internal/exec"
)

// Profile holds the times of the nodes of a run.
type Profile struct{ x *exec.Profile }

// Profile starts to record the times of the main graph's nodes. Each run overwrites
// those of the one before. On a device they are the times of the device's clock between
// events before and after each node, and every run goes through gorgonia's machine.
func (s *Session) Profile() *Profile { return &Profile{s.x.Profile()} }

// Costs returns the nanoseconds of each node's fastest run by node name, as
// passes.Options.Costs takes them. Nodes without a name, and recomputations, are left
// out.
func (p *Profile) Costs() map[string]int64 { return p.x.Costs() }

// Write writes the profile as a trace for Perfetto and Chrome, with the nodes, the load
// as a counter, and the lifetimes of the buffers. Times are those of the last run; each
// node's arguments have that of its fastest.
func (p *Profile) Write(w io.Writer) error { return p.x.Write(w) }
