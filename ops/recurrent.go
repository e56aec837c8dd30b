package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// recurrence are the recurrent layers.
var recurrence = family{"", []Op{
	{Name: "RNN", Class: Product, Precision: Half, Infer: recurrent(1, 2, 5), Cut: cutRecurrent(5), FLOPs: recurrentFLOPs, Optional: anyOutput, Weights: []int{1, 2, 3}, Kinds: []string{"recurrent", "recurrent", "bias"}, Biases: []int{3}},
	{Name: "GRU", Class: Product, Precision: Half, Infer: recurrent(3, 2, 5), Cut: cutRecurrent(5), FLOPs: recurrentFLOPs, Optional: anyOutput, Weights: []int{1, 2, 3}, Kinds: []string{"recurrent", "recurrent", "bias"}, Biases: []int{3}},
	{Name: "LSTM", Class: Product, Precision: Half, Infer: recurrent(4, 3, 5, 6), Cut: cutRecurrent(5, 6), FLOPs: recurrentFLOPs, Optional: anyOutput, Weights: []int{1, 2, 3, 7}, Kinds: []string{"recurrent", "recurrent", "bias", "recurrent"}, Biases: []int{3, 7}},
}}

// recurrent covers a recurrent layer with that many gates, in all its versions. Its
// inputs are X [seq batch input], W [dirs gates·hidden input], R [dirs gates·hidden
// hidden], B [dirs 2·gates·hidden], seq_lens [batch], then the initial states [dirs
// batch hidden], and P [dirs 3·hidden]. Y is [seq dirs batch hidden], the final states
// [dirs batch hidden]. With layout 1 (version 14 on) the batch is the first axis
// and the directions are the last but one.
func recurrent(gates int64, outputs int, states ...int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(3); err != nil {
			return err
		}
		for i := range 3 {
			if err := c.WantRank(i, 3); err != nil {
				return err
			}
		}
		dirs, hidden, err := recurrentSize(c)
		if err != nil {
			return err
		}
		rows := MulDims(hidden, graph.Dim(gates))
		if err := c.WantShape(1, "num_directions, gates × hidden, input", dirs, rows, c.DimOf(0, 2)); err != nil {
			return err
		}
		if err := c.WantShape(2, "num_directions, gates × hidden, hidden", dirs, rows, hidden); err != nil {
			return err
		}
		if err := c.WantShape(3, "the biases of W and R", dirs, MulDims(rows, 2)); err != nil {
			return err
		}
		if gates == 4 {
			if err := c.WantShape(7, "peepholes of three gates", dirs, MulDims(hidden, 3)); err != nil {
				return err
			}
		}
		return recurrentOutputs(c, dirs, hidden, outputs, states)
	}
}

// recurrentSize returns the number of directions and of hidden units.
func recurrentSize(c *Call) (dirs, hidden graph.Dim, err error) {
	dirs = 1
	// Version 1 of GRU misspells its default as "foward".
	switch d, err := c.OneOf("direction", "forward", "forward", "reverse", "bidirectional", "foward"); {
	case err != nil:
		return 0, 0, err
	case d == "bidirectional":
		dirs = 2
	}
	hidden = c.DimOf(2, 2)
	if c.HasAttr("hidden_size") {
		h, err := c.Positive("hidden_size", 0)
		if err != nil {
			return 0, 0, err
		}
		hidden = graph.Dim(h)
	}
	return dirs, hidden, nil
}

// recurrentOutputs sets Y and the final states, and checks the sequence lengths
// and initial states against them.
func recurrentOutputs(c *Call, dirs, hidden graph.Dim, outputs int, states []int) error {
	elem := c.In[0].Elem
	batchFirst := c.Int("layout", 0) != 0
	seq, batch := c.DimOf(0, 0), c.DimOf(0, 1)
	if batchFirst {
		seq, batch = batch, seq
	}
	if err := c.WantShape(4, "a length per sequence of the batch", batch); err != nil {
		return err
	}
	y, state := []graph.Dim{seq, dirs, batch, hidden}, []graph.Dim{dirs, batch, hidden}
	if batchFirst {
		y, state = []graph.Dim{batch, seq, dirs, hidden}, []graph.Dim{batch, dirs, hidden}
	}
	for _, i := range states {
		if err := c.WantShape(i, "a state per direction and sequence", state...); err != nil {
			return err
		}
	}
	c.Set(0, elem, y)
	for k := 1; k < outputs; k++ {
		c.Set(k, elem, state)
	}
	return nil
}

// recurrentFLOPs counts the multiply-adds of W and R at each step.
func recurrentFLOPs(c *Call) int64 {
	steps := MulDims(c.DimOf(0, 0), c.DimOf(0, 1))
	w, r := elements(c.Arg(1).Type), elements(c.Arg(2).Type)
	return opCount(2, steps, AddDims(w, r))
}

// cutRecurrent returns the column Cut of a recurrent layer with initial states at those
// inputs: the sequences of the batch.
func cutRecurrent(states ...int) func(c *Call, axis int) *Cut {
	return func(c *Call, axis int) *Cut {
		x, y, state := 1, 2, 1
		if c.Int("layout", 0) != 0 {
			x, y, state = 0, 0, 0
		}
		if axis != y {
			return nil
		}
		cut := c.cut(axis)
		cut.In[0] = Same(x, c.length(0, x))
		if c.Has(4) {
			cut.In[4] = Same(0, c.length(4, 0))
		}
		for _, i := range states {
			if c.Has(i) {
				cut.In[i] = Same(state, c.length(i, state))
			}
		}
		for k := 1; k < len(cut.Out); k++ {
			cut.Out[k] = state
		}
		return cut
	}
}
