package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

func makeRotary(n *Node) error { return n.rotate(n.Rotary()) }

// makeContribRotary takes positions before cosines and sines, or the first one alone.
func makeContribRotary(n *Node) error {
	f, err := n.ContribRotary()
	if err != nil {
		return refused(err)
	}
	return n.rotate(f)
}

// rotate appends the launch that rotates pairs of elements of each head.
func (n *Node) rotate(f *form.Rotary) error {
	x := n.In[0]
	if err := narrowReals(x, f.Cosines, f.Sines, n.Out[0]); err != nil {
		return err
	}
	if err := tooLarge(x, f.Cosines); err != nil {
		return err
	}
	each := f.Half + cuts(f.Size-2*f.Half, 2)
	apart, step := f.Half, 1
	if f.Interleaved {
		apart, step = 1, 2
	}
	check := faults{}
	if f.IDs != nil {
		if f.IDs.Type != graph.Int64 {
			return unsupportedf("positions of dtype %v", f.IDs.Type)
		}
		check = n.checks(checked{index: f.IDs, length: always(f.Ends()), fromZero: true})
	}
	total := f.Batch * f.Places * f.Heads * each
	at, err := n.addresses(n.Out[0], x, f.Cosines, f.Sines, f.IDs)
	if err != nil {
		return err
	}
	numbers := append([]int{total, f.Half, f.Size, f.Ends(), int(flag(f.First)), apart, step, f.Layout.Batch, f.Layout.Head, f.Layout.Position}, divider(each)...)
	numbers = append(append(numbers, divider(f.Heads)...), divider(f.Places)...)
	return n.launch(n.kernel("rotary.cu", "rotate", "ELEMENT="+cType[x.Type]), blocksFor(total), threadsPerBlock,
		at[0], at[1], at[2], at[3], at[4], unsigned(numbers, 4), check)
}
