package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// losses lists the operators that compare predictions with labels.
var losses = []Row{
	{Name: "NegativeLogLikelihoodLoss", Make: func(n *Node) error { return makeLoss(n, false) }},
	{Name: "SoftmaxCrossEntropyLoss", Make: func(n *Node) error { return makeLoss(n, true) }},
}

// labels is Labels of loss.cu.
type labels struct {
	label, weight driver.Ptr
	ignored       int64
	ignores       int32
	classes       uint32
	places        int64
	faults        faults
}

// makeLoss computes, at each position, minus the score of the labelled class along axis 1,
// weighted by class. The scores may first go through LogSoftmax, whose result is an
// optional output.
func makeLoss(n *Node, softmax bool) error {
	x, label, weight, y := n.In[0], n.In[1], n.Input(2), n.Out[0]
	if err := sameReals(x, weight); err != nil {
		return err
	}
	labelType, err := indexType(label)
	if err != nil {
		return err
	}
	at, err := n.addresses(label, weight, x, y, n.output(1))
	if err != nil {
		return err
	}
	classes := x.Shape[1]
	s := labels{
		label: at[0], weight: at[1], ignored: int64(n.Int("ignore_index", 0)), classes: uint32(classes), places: int64(label.Len()),
		faults: n.checks(checked{index: label, length: always(classes), fromZero: true}),
	}
	if n.Node.Attr("ignore_index") != nil {
		s.ignores = 1
	}
	k := func(name string) cuda.Kernel {
		return n.kernel("loss.cu", name, "ELEMENT="+cType[x.Type], "LABEL="+labelType)
	}
	reduction := n.Str("reduction", "mean")
	width := int64(computeBytes(x))
	to, terms := at[3], n.scratch(0)
	if reduction != "none" {
		to, terms = 0, n.scratch(2*width*s.places)
	}
	if softmax {
		p, grid, block, _, err := linesOf(x.Shape, 1, false).team(0)
		if err != nil {
			return err
		}
		err = n.launch3(k("cross_entropy"), grid, block, 0, to, terms, at[2], s, at[4], p)
		if err != nil {
			return err
		}
	} else if err := n.launch(k("likelihood"), blocksFor(label.Len()), threadsPerBlock, to, terms, at[2], s, uint32(count(x.Shape[2:]))); err != nil {
		return err
	}
	if reduction == "none" {
		return nil
	}
	return n.total(k("total"), y, terms, s.places, width, reduction == "mean")
}

// total appends the sum of many terms, after which their weights lie: in parts if there
// are more than one block should add up.
func (n *Node) total(k cuda.Kernel, y *form.Tensor, terms cuda.Room, many, width int64, mean bool) error {
	at, err := n.addresses(y)
	if err != nil {
		return err
	}
	divides := int32(0)
	if mean {
		divides = 1
	}
	const onePart = 4096
	if many > 2*onePart {
		part := max(onePart, (many+manyBlocks-1)/manyBlocks)
		blocks := (many + part - 1) / part
		sums := n.scratch(2 * width * blocks)
		if err := n.launch(k, int(blocks), threadsPerBlock, driver.Ptr(0), sums, terms, many, part, divides); err != nil {
			return err
		}
		terms, many = sums, blocks
	}
	return n.launch(k, 1, threadsPerBlock, at[0], n.scratch(0), terms, many, many, divides)
}
