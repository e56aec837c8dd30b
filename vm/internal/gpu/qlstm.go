package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// bytesOfReals is scratch for reals as bytes, with their scale and zero point.
type bytesOfReals struct{ bytes, scale, zero cuda.Room }

func (n *Node) bytesOfReals(length int) bytesOfReals {
	return bytesOfReals{n.scratch(int64(length)), n.scratch(4), n.scratch(4)}
}

// quantizedRecurrent is a DynamicQuantizeLSTM.
type quantizedRecurrent struct {
	recurrent
	dots cuda.Room // of the states with R: [direction, batch, 4·hidden]
}

// makeDynamicQuantizeLSTM quantizes the input as a whole and multiplies it with W, and then the
// states of each direction at each step, of all sequences together. With lengths, how they are
// quantized depends on them, and the host computes the node.
func makeDynamicQuantizeLSTM(n *Node) error {
	x, w := n.In[0], n.In[1]
	for _, t := range []*form.Tensor{x, n.Input(3), n.Input(5), n.Input(6), n.Input(7), n.In[8], n.In[10], n.output(0), n.output(1), n.output(2)} {
		if t != nil && t.Type != graph.Float32 {
			return unsupportedf("dtype %v", t.Type)
		}
	}
	if n.Has(4) || n.Int("layout", 0) != 0 || !w.Byte() || !n.In[2].Byte() {
		return unsupportedf("lengths, layout %d, or weights of %v", n.Int("layout", 0), w.Type)
	}
	f, err := n.Recurrent(4)
	if err != nil {
		return refused(err)
	}
	f.Hidden = n.In[2].Shape[1]
	wide, rows := 4*f.Hidden, f.Steps*f.Batch
	state := f.Batch * f.Hidden // elements, of a direction
	if f.Steps > mostSteps/4 || max(f.Directions*rows*wide, rows*f.Input, wide*max(f.Input, f.Hidden)) > math.MaxInt32-128 {
		return unsupportedf("%d steps of %d sequences with states of %d", f.Steps, f.Batch, f.Hidden)
	}
	at, err := n.addresses(n.Input(3), n.output(0), n.Input(7))
	if err != nil {
		return err
	}
	width := 4 * f.Directions * state
	r := &quantizedRecurrent{recurrent{
		n: n, f: f, layer: layerOf(f), tensors: recurrentTensors{bias: at[0], y: at[1], peep: at[2]}, chunk: f.Steps,
		sums: n.scratch(int64(4 * f.Steps * width)), more: n.scratch(int64(width)),
	}, n.scratch(int64(4 * width))}
	h := n.scratch(int64(width))
	r.states = [2]cuda.Room{h, h}
	if err := r.begin(); err != nil {
		return err
	}
	input := n.bytesOfReals(x.Len())
	if err := quantizeRange(n, x, input.bytes, input.scale, input.zero); err != nil {
		return err
	}
	for d := range f.Directions {
		if err := r.multiply(input, rows, 1, 8, f.Input, d, part(r.sums, d, 4*rows*wide)); err != nil {
			return err
		}
	}
	own, ranges := n.bytesOfReals(state), n.scratch(rangeBytes(state))
	for t := range f.Steps {
		for d := range f.Directions {
			if err := quantizeReals(n, part(h, d, 4*state), state, own.bytes, own.scale, own.zero, ranges); err != nil {
				return err
			}
			if err := r.multiply(own, f.Batch, 2, 10, f.Hidden, d, part(r.dots, d, 4*f.Batch*wide)); err != nil {
				return err
			}
		}
		if err := n.launch(r.kernel("lstm_of_dots"), r.blocks(), threadsPerBlock, r.sums, r.dots, h, r.more, r.tensors, r.layer, r.at(t, 0, f.Steps)); err != nil {
			return err
		}
	}
	return r.finish()
}

// part is part d of scratch, of as many bytes.
func part(room cuda.Room, d, bytes int) cuda.Room {
	room.Off, room.Bytes = room.Off+int64(d*bytes), room.Bytes-int64(d*bytes)
	return room
}

// multiply appends the product of rows of bytes with the weights of direction d at input i,
// which have a scale and a zero point for each direction, or for each of its columns, at input
// scale. The result is real.
func (r *quantizedRecurrent) multiply(a bytesOfReals, rows, i, scale, depth, d int, to cuda.Room) error {
	n, wide := r.n, 4*r.f.Hidden
	w := n.In[i]
	t, tiles := byteTile(rows, wide, 1)
	v := byteBatch{
		M: int32(rows), N: int32(wide), K: int32(depth), CountA: 1, CountB: 1,
		ARow: int64(depth), ADeep: 1, BColumn: 1, BDeep: int64(wide), YRow: int64(wide),
	}
	s := scaling{CountA: 1, CountB: 1, Alpha: 1}
	at, err := n.addresses(w, n.In[scale], n.Input(scale+1))
	if err != nil {
		return err
	}
	// first returns where the numbers of the direction are, and how many.
	first := func(of *form.Tensor, at driver.Ptr, size int) (driver.Ptr, int32, error) {
		switch {
		case of == nil:
			return 0, 1, nil
		case of.Len() == r.f.Directions:
			return at + driver.Ptr(d*size), 1, nil
		case of.Len() == r.f.Directions*wide:
			return at + driver.Ptr(d*wide*size), int32(wide), nil
		}
		return 0, 0, unsupportedf("%d scales or zero points of %v", of.Len(), w.Shape)
	}
	if s.B, s.CountB, err = first(n.In[scale], at[1], 4); err != nil {
		return err
	}
	zero := n.Input(scale + 1)
	if zero != nil && zero.Type != w.Type {
		return unsupportedf("zero points of dtype %v for %v", zero.Type, w.Type)
	}
	zeros, many, err := first(zero, at[2], 1)
	if err != nil {
		return err
	}
	v.CountB = many
	k := n.kernel("qmatmul.cu", "product"+t.suffix, "LEFT=u8", "RIGHT="+cType[w.Type], "RESULT=float")
	return n.launch(k, tiles, t.threads, to, a.bytes, at[0]+driver.Ptr(d*depth*wide), a.zero, zeros, v, a.scale, s)
}
