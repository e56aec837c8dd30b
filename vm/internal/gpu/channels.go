package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// channels shares the channels of a tensor out to blocks: of images with planes of
// neighbouring elements, or, with a single image, rows.
type channels struct {
	param       channelParam
	grid, block driver.Dim3
	parts, all  int // of a channel, in different blocks; elements of a channel
}

// channelParam is Channels of channels.cuh.
type channelParam struct {
	count, inner, image, units, part, plane, byPlanes, byUnits, wide, packed int32
}

const (
	// mostChannelParts bounds the parts of a channel, which are added up one after the other.
	mostChannelParts = 16
	// fewestUnits is the least number of units of a thread, of those that a part has.
	fewestUnits = 2
)

// runsOf returns a shape as outer x kept x inner elements, if one run of axes is kept at
// most and two are reduced at most, around it.
func runsOf(shape []int, drop []bool) (outer, kept, inner int, ok bool) {
	f := form.FoldAxes(shape, drop)
	n := count(shape)
	if n == 0 || len(f.Kept) > 1 || len(f.Reduced) > 2 {
		return 0, 0, 0, false
	}
	if len(f.Kept) == 0 {
		return 1, 1, n, true
	}
	kept, inner = f.Kept[0], f.KeptStride[0]
	return n / (kept * inner), kept, inner, true
}

// channelsOf shares images x count channels of planes of inner elements. The order of sums
// depends on these numbers alone. It reports false where the channels are too few to keep
// a GPU busy, or planes so small that neighbouring threads would have no neighbouring
// elements.
func channelsOf(images, count, inner int) (*channels, bool) {
	all := images * inner
	if inner < 8 || images > 1 && inner < 32 || all*count > 1<<31-1<<20 {
		return nil, false
	}
	c := &channels{all: all}
	unit := 1
	if inner%4 == 0 {
		unit = 4
	}
	units := all / unit
	x := max(32, atLeast((units+3)/4, threadsPerBlock))
	y := min(threadsPerBlock/x, atLeast(count, threadsPerBlock/x))
	blocks := (count + y - 1) / y
	parts := max(1, min((manyBlocks+blocks-1)/blocks, units/(fewestUnits*x)))
	if parts > mostChannelParts {
		if blocks < multiprocessors/4 {
			return nil, false
		}
		parts = mostChannelParts
	}
	part := (units + parts - 1) / parts
	c.parts = (units + part - 1) / part
	plane := inner / unit
	c.param = channelParam{
		count: int32(count), inner: int32(inner), image: int32(count * inner), units: int32(units), part: int32(part),
		plane: int32(plane), byPlanes: int32(x / plane), byUnits: int32(x % plane),
	}
	if unit == 4 {
		c.param.wide = 1
	}
	c.grid = driver.Dim3{X: uint32(blocks), Y: uint32(c.parts), Z: 1}
	c.block = driver.Dim3{X: uint32(x), Y: uint32(y), Z: 1}
	return c, true
}

// at makes threads load four elements at once if all addresses allow it, of tensors of
// any dtype: their elements need not have one size.
func (c *channels) at(list ...driver.Ptr) *channels {
	c.param.packed = c.param.wide
	for _, a := range list {
		if a%16 != 0 {
			c.param.packed = 0
		}
	}
	return c
}

// columns shares the columns of a matrix out to blocks, of which each thread has four.
type columns struct {
	rows, count, part int
	grid, block       driver.Dim3
	parts             int
}

// columnsOf reports false for a matrix that is too small, or whose rows have no fours.
func columnsOf(rows, count int) (*columns, bool) {
	const x, y = 32, 8
	if count%4 != 0 || count < 64 || rows < y || rows*count > 1<<31-1<<20 {
		return nil, false
	}
	blocks := (count + 4*x - 1) / (4 * x)
	parts := max(1, min((manyBlocks+blocks-1)/blocks, rows/(4*y), 64))
	c := &columns{rows: rows, count: count, part: (rows + parts - 1) / parts}
	c.parts = (rows + c.part - 1) / c.part
	c.grid = driver.Dim3{X: uint32(blocks), Y: uint32(c.parts), Z: 1}
	c.block = driver.Dim3{X: x, Y: y, Z: 1}
	return c, true
}
