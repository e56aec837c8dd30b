package constant

import (
	"errors"
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
)

// Kept is the largest size of a computed tensor that is kept. A larger one is dropped
// when it has been used, and computed again where it is needed.
const Kept = 1 << 20

// What may be computed from the constants of a model, counted once for each time that it
// is computed: a few bytes can ask for terabytes, step by step or many times side by side.
const (
	leastMade = 64 << 20 // whatever the constants are
	growth    = 8        // bytes made for each byte of a constant
	traffic   = 4        // bytes read and made for each byte that may be made
	nodeBytes = 1 << 10  // what a node counts at least among those: it takes time, too
)

// Budget is what may still be computed from the constants of a model. The planner folds
// nothing that exceeds it, and the verifier refuses what does.
type Budget struct{ made, moved, most int64 }

// ErrBudget is the error of a node that exceeds the budget.
var ErrBudget = errors.New("too large")

// Budget returns what may be computed from the constants of a model, in its bodies too.
// External data count as far as there are files.
func (f *Files) Budget() (b Budget, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	external := map[string]int64{}
	most := f.constants(f.m.Graph, external)
	for location, size := range external {
		most = units.Add(most, min(size, int64(len(f.open[location].Bytes))))
	}
	b.made = units.Add(leastMade, units.Mul(most, growth))
	b.most, b.moved = b.made, units.Mul(b.made, traffic)
	return b, nil
}

// Limit lowers the budget to so many bytes that are made.
func (b *Budget) Limit(bytes int64) {
	b.made = min(b.made, bytes)
	b.most = min(b.most, bytes)
}

// constants is the size of the constants of a graph and its bodies, without those in
// external data files, which it adds up by file: many may share the same bytes.
func (f *Files) constants(g *graph.Graph, external map[string]int64) (size int64) {
	add := func(d *graph.Data) {
		switch {
		case d == nil:
		case d.External == nil:
			size = units.Add(size, d.Bytes)
		default:
			if _, err := f.external(d.External, d.Bytes); err == nil {
				external[d.External.Location] = units.Add(external[d.External.Location], d.Bytes)
			}
		}
	}
	for _, t := range g.Tensors {
		if !t.Capture {
			add(t.Data)
		}
	}
	for _, n := range g.Nodes {
		if ops.IsConstant(n) {
			add(Of(n))
		}
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				size = units.Add(size, f.constants(b, external))
			}
		}
	}
	return size
}

// Take counts a node that is computed: the bytes that it reads and makes.
func (b *Budget) Take(read, made int64) error {
	moved := max(units.Add(read, made), nodeBytes)
	if made > b.made || moved > b.moved {
		return fmt.Errorf("%w: all folded constants together may make %s, and read and make %d times as much", ErrBudget, units.Bytes(b.most), traffic)
	}
	b.made -= made
	b.moved -= moved
	return nil
}
