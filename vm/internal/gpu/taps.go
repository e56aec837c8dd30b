package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// tapped is the struct Conv of kernels/taps.cu.
type tapped struct {
	M, N                                                   int32
	Inner, K, Chunk                                        int32
	Parts, Pitch                                           int32
	Groups, Wide, TapCount                                 int32
	Padded, Positions, Out12, Out2, Taps12, Taps2, Columns division
	In, Start, Stride, Dilation                            [3]int32
	WTap, YStep                                            [3]int32
	_                                                      int32
	PartStart, PartTotal                                   int64
	XImage, XGroup, XChannel                               int64
	WStart, WGroup, WRow, WDeep, WImage                    int64
	YStart, YImage, YGroup, YRow                           int64
}

// tappedList is the struct Convs of kernels/taps.cu.
type tappedList struct {
	List     [8]tapped
	Count, _ int32
}

// Figures of kernels/taps.cu, and its forms.
const (
	spreadForm   = "SPREAD"
	gradientForm = "GRADIENT"

	leastInner   = 24 // length of the inner axis of the depth, below which its padding costs too much
	leastColumns = 64 // positions, below which weights are not worth being laid out again
)

// fitsInner reports whether an axis is nearly whole in tiles.
func fitsInner(n int) bool { return n >= leastInner || n%8 == 0 && n > 0 }

// byTaps reports whether the depth can run tap by tap.
func (c *convolution) byTaps() bool {
	if volume(c.Kernel) == 1 {
		return true
	}
	return fitsInner(c.channels) && c.images*volume(c.Out) >= leastColumns
}

// tapped returns the parameters that all forms share, with weights as they lie: those of
// an output channel are row elements apart, of an input channel deep.
func (c *convolution) tapped(n *Node, row, deep int) tapped {
	v := c.slide(n)
	taps := volume(c.Kernel)
	return tapped{
		M: v.M, N: v.N, Inner: int32(c.channels), Groups: v.Groups, Wide: v.Wide, TapCount: int32(taps),
		Positions: v.Positions, Out12: v.Out12, Out2: v.Out2, Taps12: v.Taps12, Taps2: v.Taps2, Columns: divisionBy(1),
		In: v.In, Start: v.Start, Stride: v.Stride, Dilation: v.Dilation, WTap: v.WTap, YStep: v.YStep,
		XImage: v.XImage, XGroup: v.XGroup, XChannel: v.XChannel,
		WGroup: int64(c.m * c.channels * taps), WRow: int64(row), WDeep: int64(deep),
		YImage: v.YImage, YGroup: v.YGroup, YRow: v.YRow,
	}
}

// taps appends a convolution tap by tap, with weights that are laid out again, by output
// channel, if there are several taps.
func (c *convolution) taps(n *Node) error {
	taps := volume(c.Kernel)
	if taps == 1 {
		v := c.tapped(n, c.channels, 1)
		return c.launchTaps(n, []tapped{v}, nil, []int{1}, "")
	}
	v := c.tapped(n, 1, taps*c.m)
	for a := range v.WTap {
		v.WTap[a] *= int32(c.m)
	}
	depth := c.channels * taps
	w, err := n.laidOut(c.w, form.Move{Shape: []int{c.groups, depth, c.m}, From: []int{c.m * depth, 1, depth}, To: []int{depth * c.m, c.m, 1}})
	if err != nil {
		return err
	}
	return c.launchTaps(n, []tapped{v}, &w, []int{taps}, "")
}

// laidOut appends a copy of a tensor to scratch, where it is dense.
func (n *Node) laidOut(t *form.Tensor, m form.Move) (cuda.Room, error) {
	width := form.ElementBits(t.Type) / 8
	room := n.scratch(int64(t.Len() * width))
	from, err := n.at(t)
	if err != nil {
		return room, err
	}
	c := copying{Move: m.Merged(), width: width, from: from, room: &room}
	if t.Len() > most {
		return room, unsupportedf("%d weights", t.Len())
	}
	return room, n.launchCopy(&c)
}

// divide completes the parameters: how each product is divided among blocks. It returns
// how, the blocks of each, and the elements of all parts. outer are the lengths of the outer
// axes of the depth.
func (c *convolution) divide(n *Node, list []tapped, outer []int, taps int) (s split, blocks int, room int64) {
	columns, depth, sum := 0, 0, 0
	for i := range list {
		deep := outer[i] * int(list[i].Inner)
		columns, depth, sum = max(columns, int(list[i].N)), max(depth, deep), sum+deep
	}
	full := cuts(sum, max(depth, 1)) // products of the full depth that would be as much work
	s = splitProduct(n.tiles(c.r.y), c.m, columns, depth, c.groups*taps*max(full, 1))
	for i := range list {
		v := &list[i]
		padded := cuts(int(v.Inner), s.tile.k) * s.tile.k
		longest := cuts(depth, max(int(v.Inner), 1)) * padded
		v.Padded, v.K = divisionBy(padded), int32(outer[i]*padded)
		v.Chunk = int32(cuts(longest, s.parts*s.tile.k) * s.tile.k)
		v.Parts = int32(max(1, cuts(int(v.K), max(int(v.Chunk), 1))))
		v.Pitch = int32(cuts(int(v.N)*taps, 4) * 4)
		v.PartTotal = int64(c.groups*c.m) * int64(v.Pitch)
		if v.Parts > 1 {
			v.PartStart = room
			room += int64(v.Parts) * v.PartTotal
		}
	}
	return s, cuts(c.m, s.tile.m) * cuts(columns, s.tile.n) * c.groups * taps, room
}

// launchTaps appends the launches of kernels/taps.cu in a form. w is where the weights lie,
// if not at their place. outer are the lengths of the outer axes of the depth.
func (c *convolution) launchTaps(n *Node, list []tapped, w *cuda.Room, outer []int, form string) error {
	taps := 1
	if form == gradientForm {
		taps = int(list[0].TapCount)
	}
	s, blocks, total := c.divide(n, list, outer, taps)
	definitions, err := n.definitions(c.r.y, c.x, c.w)
	if err != nil {
		return err
	}
	y, err := n.place(c.r)
	if err != nil {
		return err
	}
	at, err := n.addresses(c.x, c.w, c.r.bias, c.r.added)
	if err != nil {
		return err
	}
	var left, room any = at[1], driver.Ptr(0)
	if w != nil {
		left = *w
	}
	if total > 0 {
		room = n.scratch(total * int64(computeBytes(c.r.y)))
	}
	if blocks*len(list) > math.MaxInt32 || s.parts > math.MaxUint16 {
		return unsupportedf("a convolution of %d tiles in %d parts", blocks*len(list), s.parts)
	}
	if form != "" {
		definitions = append(definitions, form)
	}
	n.computes("onnxmem", c.r.y.Type, n.k.tf32(c.r.y.Type))
	k, finish := n.kernel("taps.cu", "conv"+s.tile.suffix, definitions...), n.kernel("taps.cu", "finish", definitions...)
	block := driver.Dim3{X: uint32(s.tile.threads), Y: 1, Z: 1}
	for len(list) > 0 {
		var params any = list[0]
		count, parts, most := 1, int(list[0].Parts), int64(0)
		if form == spreadForm {
			var v tappedList
			count = copy(v.List[:], list)
			v.Count = int32(count)
			params = v
		}
		for _, v := range list[:count] {
			parts, most = max(parts, int(v.Parts)), max(most, v.PartTotal)
		}
		list = list[count:]
		grid := driver.Dim3{X: uint32(blocks * count), Y: uint32(parts), Z: 1}
		if err := n.launch3(k, grid, block, 0, y, room, at[0], left, at[2], at[3], params, c.r.finish); err != nil {
			return err
		}
		if parts > 1 {
			if most > math.MaxInt32 {
				return unsupportedf("%d sums in parts", most)
			}
			grid := driver.Dim3{X: uint32(cuts(int(most), 4*threadsPerBlock)), Y: uint32(count), Z: 1}
			block := driver.Dim3{X: threadsPerBlock, Y: 1, Z: 1}
			if err := n.launch3(finish, grid, block, 0, y, room, at[2], at[3], params, c.r.finish); err != nil {
				return err
			}
		}
	}
	return n.activate(c.r)
}
