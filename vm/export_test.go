package vm

import (
	"testing"

	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func init() { lower.Check(lower.ChecksAlways) }

// UncheckedLowering lets sessions have wrong plans, which the check between rewriters would find,
// until the test ends.
func UncheckedLowering(t testing.TB) {
	t.Cleanup(lower.Check(lower.ChecksNever))
}

// SetMostInline changes the number of bytes of elements that a model file may hold, and
// returns the old number.
func SetMostInline(n int64) int64 {
	was := mostInline
	mostInline = n
	return was
}

// HoldNHWC makes sessions hold images in NHWC even where NCHW is as fast, until the test
// ends.
func HoldNHWC(t testing.TB) { t.Cleanup(lower.HoldNHWC()) }

// SharedPacks counts the packed constants that programs can share, and their users.
func SharedPacks() (packs, users int) { return constants.SharedPacks() }

// CheckLowering checks the table of rewriters, or that with two rows exchanged.
func CheckLowering(list []Rewriter) error {
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	return lower.CheckTable(names)
}

// LoweringConstraints lists which rewriter must run before which.
func LoweringConstraints() [][2]string { return lower.LoweringConstraints() }

// Joins reports whether an operator of ai.onnx may be computed from and to bytes.
func Joins(op string) bool { return lower.Joins(op) }

// Nodes returns the number of nodes of the main graph.
func (p *Program) Nodes() int { return len(p.p.Model.Graph.Nodes) }

// AddShared makes the plan share the buffer of a tensor with that of one that its node
// reads.
func (p *Program) AddShared(name, with string) { p.p.AddShared(name, with) }

// Taken is the number of bytes that the program and its sessions have in use.
func (p *Program) Taken() int64 { return p.p.Constants.Mem.Of.Taken() }

// Kept counts the constants that a node computes for products and that stay in
// memory, because some product has not packed them.
func (p *Program) Kept() int { return p.p.Constants.Kept() }

// Bind prepares the point of inputs without running it.
func (s *Session) Bind(inputs map[string]Value) error { return s.x.Bind(inner(inputs)) }

// What exec and lower say of a session.
func (s *Session) SetRun(node int, run func(c *kernel.Invocation, w *work.Pool) error) (undo func()) {
	return s.x.SetRun(node, run)
}
func (s *Session) BeforeNode(f func(node string)) { s.x.BeforeNode(f) }
func (s *Session) JoinedQuantized() []string      { return s.x.Main().JoinedQuantized() }
func (s *Session) Bound() int                     { return s.x.Bound() }
func (s *Session) HeldInNCHW() []string           { return s.x.Main().HeldInNCHW() }
func (s *Session) HeldInNHWC() []string           { return s.x.Main().HeldInNHWC() }
func (s *Session) HeldInNCHW16c() []string        { return s.x.Main().HeldInNCHW16c() }
func (s *Session) Residuals() []string            { return s.x.Main().Residuals() }
func (s *Session) Chained() []string              { return s.x.Main().Chained() }
func (s *Session) NormGradients() []string        { return s.x.Main().NormGradients() }
func (s *Session) KernelOf(name string) string    { return s.x.Main().KernelOf(name) }
func (s *Session) Lowered() string                { return s.x.Main().Lowered() }
func (s *Session) CheckMoved(node, to string, covers bool) error {
	return s.x.Main().CheckMoved(node, to, covers)
}
