package gpu

import (
	"slices"

	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// moving prepares an operator that only moves elements.
func moving(moves func(*form.Call) ([]form.Move, error)) func(*Node) error {
	return func(n *Node) error {
		list, err := moves(n.Call)
		err = refused(err)
		for i := range list {
			if err == nil {
				err = n.move(&list[i])
			}
		}
		return err
	}
}

// move appends one copy.
func (n *Node) move(m *form.Move) error {
	in, out := n.In[m.In], n.Out[m.Out]
	width, err := widthOf(in)
	if err != nil {
		return err
	}
	at, err := n.addresses(out, in)
	if err != nil {
		return err
	}
	c := copying{Move: m.Merged(), width: width, to: at[0], from: at[1]}
	c.to += driver.Ptr(c.ToOff * width)
	c.from += driver.Ptr(c.FromOff * width)
	switch {
	case count(c.Shape) == 0 || c.to == c.from:
		return nil // an input that lies at its place is a view of the output, or the reverse
	case len(c.Shape) == 1 && c.From[0] == 1 && c.To[0] == 1:
		n.copy(c.to, c.from, int64(c.Shape[0]*c.width))
		return nil
	}
	c.widen()
	for _, piece := range c.pieces(most) {
		if err := n.launchCopy(&piece); err != nil {
			return err
		}
	}
	return nil
}

// copying is a copy between two layouts on the device, of elements of width bytes.
type copying struct {
	form.Move
	width    int
	to, from driver.Ptr
	room     *cuda.Room // nil, or scratch that the copy goes to
}

// target is where the copy goes to, as a parameter.
func (c *copying) target() any {
	if c.room != nil {
		return *c.room
	}
	return c.to
}

// widen makes neighbouring elements one, of up to 16 bytes, where rows are contiguous in
// both layouts and everything is aligned for it.
func (c *copying) widen() {
	last := len(c.Shape) - 1
	if c.From[last] != 1 || c.To[last] != 1 {
		return
	}
	for c.width < 16 && c.Shape[last]%2 == 0 && (c.to|c.from)%driver.Ptr(2*c.width) == 0 {
		for a := range last {
			if c.From[a]%2 != 0 || c.To[a]%2 != 0 {
				return
			}
		}
		for a := range last {
			c.From[a] /= 2
			c.To[a] /= 2
		}
		c.Shape[last] /= 2
		c.width *= 2
	}
	c.Move = c.Merged() // rows may be single elements now
}

// pieces cuts a copy into some with at most limit elements each, whose offsets are at
// most limit, too.
func (c *copying) pieces(limit int) []copying {
	from, to, long, reach := 0, 0, 0, 0
	for a, n := range c.Shape {
		x, y := (n-1)*max(c.From[a], -c.From[a]), (n-1)*max(c.To[a], -c.To[a])
		from, to = from+x, to+y
		if max(x, y, n-1) > reach {
			long, reach = a, max(x, y, n-1)
		}
	}
	if max(count(c.Shape), from, to) <= limit {
		return []copying{*c}
	}
	front, back := *c, *c
	half := c.Shape[long] / 2
	front.Shape, back.Shape = slices.Clone(c.Shape), slices.Clone(c.Shape)
	front.Shape[long], back.Shape[long] = half, c.Shape[long]-half
	back.from += driver.Ptr(half * c.From[long] * c.width)
	back.to += driver.Ptr(half * c.To[long] * c.width)
	return append(front.pieces(limit), back.pieces(limit)...)
}

// launchCopy appends the launch of a copy whose offsets fit 32 bits.
func (n *Node) launchCopy(c *copying) error {
	if across := c.transposes(); across >= 0 {
		return n.launchTranspose(c, across)
	}
	suffix, axes, err := axesFor(&c.Move)
	if err != nil {
		return err
	}
	total := count(c.Shape)
	return n.launch(n.mover(c, "move"+suffix), blocksFor((total+3)/4), threadsPerBlock, c.target(), c.from, uint32(total), axes)
}

// mover returns a kernel for the width of the elements.
func (n *Node) mover(c *copying, name string) cuda.Kernel {
	return n.kernel("move.cu", name, "ELEMENT="+unitOf[c.width])
}

// leastSide is the least number of rows and columns of a matrix that is worth a tile.
const leastSide = 8

// transposes returns the axis that is contiguous in the input, if the last axis is
// contiguous in the output only and both are long enough; else -1.
func (c *copying) transposes() int {
	last := len(c.Shape) - 1
	if c.To[last] != 1 || c.From[last] == 1 || c.Shape[last] < leastSide || last > 4 {
		return -1
	}
	for a := range last {
		if c.From[a] == 1 && c.Shape[a] >= leastSide {
			return a
		}
	}
	return -1
}

// launchTranspose appends the launch of a copy that transposes matrices: their rows run
// along the given axis of the input, and along the last one of the output.
func (n *Node) launchTranspose(c *copying, across int) error {
	last := len(c.Shape) - 1
	var shape, from, to []int
	for a := range last {
		if a != across {
			shape, from, to = append(shape, c.Shape[a]), append(from, c.From[a]), append(to, c.To[a])
		}
	}
	side := 32 // of a tile
	if c.width < 4 {
		side = 64
	}
	rows, columns := c.Shape[last], c.Shape[across]
	right, down := (columns+side-1)/side, (rows+side-1)/side
	numbers := append([]int{rows, columns, c.From[last], c.To[across]}, divider(right)...)
	numbers = append(append(numbers, divider(down)...), axesOf(3, shape, from, to)...)
	grid := driver.Dim3{X: uint32(count(shape) * down * right), Y: 1, Z: 1}
	return n.launch3(n.mover(c, "transpose"), grid, driver.Dim3{X: 32, Y: 8, Z: 1}, 0, c.target(), c.from, unsigned(numbers, 4))
}
