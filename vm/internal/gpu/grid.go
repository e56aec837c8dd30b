package gpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// grids lists the operators that sample an image at coordinates from an input, or
// make such coordinates.
var grids = []Row{
	{Name: "GridSample", Make: makeGridSample},
	{Name: "AffineGrid", Make: makeAffineGrid},
}

// paddings are the values of padding_mode in the order of the enumeration Padding in
// kernels/grid.cu.
var paddings = []string{"zeros", "border", "reflection"}

// sampledImage is the struct Image there.
type sampledImage struct {
	images, channels, inputs, outputs int32
	padding, corners                  int32
	n, step                           [3]int32
}

// channelsTogether is the number of channels that a thread samples.
const channelsTogether = 16

// makeGridSample samples all channels of an image at the points of a grid. A point lists
// its coordinates from the last axis to the first.
func makeGridSample(n *Node) error {
	x, grid, y := n.In[0], n.In[1], n.Out[0]
	if err := narrowReals(x, grid, y); err != nil {
		return err
	}
	if err := tooLarge(x, grid, y); err != nil {
		return err
	}
	taps, padding, corners := n.GridSampling()
	axes := len(x.Shape) - 2
	kind := slices.Index(paddings, padding)
	if axes < 1 || axes > 3 || kind < 0 {
		return unsupportedf("%d spatial axes with padding %q", axes, padding)
	}
	s := sampledImage{
		images: int32(x.Shape[0]), channels: int32(x.Shape[1]), inputs: int32(count(x.Shape[2:])), outputs: int32(count(y.Shape[2:])),
		padding: int32(kind), corners: flag(corners),
	}
	for a := range axes {
		s.n[a], s.step[a] = int32(x.Shape[2+a]), int32(count(x.Shape[3+a:]))
	}
	at, err := n.addresses(y, x, grid)
	if err != nil {
		return err
	}
	k := n.kernel("grid.cu", fmt.Sprintf("sample%d_%d", axes, taps), "ELEMENT="+cType[x.Type], fmt.Sprint("TAPS=", taps))
	across := driver.Dim3{X: uint32(blocksFor(int(s.images * s.outputs))), Y: uint32(min(cuts(int(s.channels), channelsTogether), math.MaxUint16)), Z: 1}
	return n.launch3(k, across, driver.Dim3{X: threadsPerBlock, Y: 1, Z: 1}, 0, at[0], at[1], at[2], s)
}

// makeAffineGrid applies an affine map for each image to points that are spread evenly
// over [-1, 1].
func makeAffineGrid(n *Node) error {
	theta, y := n.In[0], n.Out[0]
	if err := sameReals(theta, y); err != nil {
		return err
	}
	if err := tooLarge(theta, y); err != nil {
		return err
	}
	axes := len(y.Shape) - 2
	if axes != 2 && axes != 3 {
		return unsupportedf("%d spatial axes", axes)
	}
	at, err := n.addresses(y, theta)
	if err != nil {
		return err
	}
	points := count(y.Shape[:axes+1])
	numbers := []int{points, int(flag(n.Int("align_corners", 0) != 0))}
	for k := range 3 {
		length := 1
		if k < axes {
			length = y.Shape[axes-k]
		}
		numbers = append(numbers, divider(length)...)
	}
	k := n.kernel("affine.cu", fmt.Sprint("map", axes), "ELEMENT="+cType[y.Type])
	return n.launch(k, blocksFor(points), threadsPerBlock, at[0], at[1], unsigned(numbers, 4))
}
