package gpu

import (
	"fmt"

	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// tokens is the struct Tokens of kernels/embed.cu.
type tokens struct {
	count, tokens              uint32
	width, length              [3]uint32
	words, positions, segments uint32
	shared                     int32
}

// makeEmbedNorm adds up rows of tables, where the sums or the result lie, and normalizes them.
func makeEmbedNorm(n *Node) error {
	f, err := n.Embed()
	if err != nil {
		return refused(err)
	}
	sum, y := n.output(2), n.Out[0]
	if err := narrowReals(f.Words, f.Positions, f.Segments, f.Scale, f.Shift, sum, y); err != nil {
		return err
	}
	if err := tooLarge(y, f.Words, f.Positions); err != nil {
		return err
	}
	if sum == nil {
		sum = y
	}
	at, err := n.addresses(sum, f.Words, f.Positions, f.Segments, f.IDs, f.Places, f.Parts, n.output(1), f.Mask, f.Scale, f.Shift)
	if err != nil {
		return err
	}
	if counts := at[7]; counts != 0 {
		k := n.kernel("embed.cu", "ones", "ELEMENT="+cType[y.Type])
		if err := n.launch(k, blocksFor(f.Batch), threadsPerBlock, counts, at[8], uint32(f.Batch), uint32(f.Length)); err != nil {
			return err
		}
	}
	if y.Len() == 0 {
		return nil
	}
	s := tokens{count: uint32(y.Len()), tokens: uint32(f.Batch * f.Length), words: uint32(f.Words.Shape[0]), positions: uint32(f.Positions.Shape[0])}
	s.width, s.length = [3]uint32(dividerOf(f.Hidden)), [3]uint32(dividerOf(f.Length))
	if f.Segments != nil {
		s.segments = uint32(f.Segments.Shape[0])
	}
	if f.Places != nil {
		s.shared = flag(f.Places.Len() < f.IDs.Len())
	}
	count := f.Batch * f.Length
	check := n.checks(checked{index: f.IDs, wrong: func(i int) error {
		input, rows := []int{0, 8, 1}[i/count%3], []uint32{s.words, s.positions, s.segments}[i/count%3]
		return fmt.Errorf("element %d of input %d: expected one in [0, %d)", i%count, input, rows)
	}})
	k := n.kernel("embed.cu", "embed", "ELEMENT="+cType[y.Type])
	if err := n.launch(k, blocksFor(y.Len()), threadsPerBlock, at[0], at[1], at[2], at[3], at[4], at[5], at[6], s, check); err != nil {
		return err
	}
	norm, err := n.normKernel("row_norm", y)
	if err != nil {
		return err
	}
	r := normalized{scale: at[9], bias: at[10], epsilon: float64(f.Epsilon), scales: repeats{1, int32(f.Hidden)}, biases: repeats{1, int32(f.Hidden)}}
	return n.launchTeams(norm, linesOf(y.Shape, 2, true).inFours(), computeBytes(y), []*form.Tensor{y, sum}, r)
}
