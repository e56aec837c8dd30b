package vm

import "github.com/onnxmem/onnxmem/vm/internal/lower"

// Rewriter is one row of the lowering, the table that makes tasks of the nodes of a frame. A
// rewriter gives the work of several nodes to one kernel, chooses the layout of a tensor, or
// does the work of a node when the session is built.
type Rewriter struct {
	Name string // unique within the table
	Doc  string // what it does, in one line
	On   string // OnCPU, OnGPU or OnBoth
	Only string // why it is not on the other device; "" if it is

	// An optional rewriter can be left out by name (Options.Without): the session is then
	// slower, and its results are the same bits unless Rounds says why they are not.
	Optional bool
	Rounds   string

	// Planned says that it needs planned places: it leaves bodies alone, and sessions whose
	// tensors are apart, guarded or compared node by node, so --check compares the two.
	Planned bool
}

// Where the sessions run that a rewriter works for (Rewriter.On).
const (
	OnCPU  = lower.OnCPU
	OnGPU  = lower.OnGPU
	OnBoth = lower.OnBoth
)

// Lowering returns the rewriters in the order in which they run, once for each frame.
func Lowering() []Rewriter {
	var list []Rewriter
	for _, r := range lower.Lowering() {
		list = append(list, Rewriter{r.Name, r.Doc, r.On, r.Only, r.Optional, r.Rounds, r.Planned})
	}
	return list
}

// CheckWithout reports names that Options.Without may not have.
func CheckWithout(names []string) error { return lower.CheckWithout(names) }
