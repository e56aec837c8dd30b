package gpu

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// productTile is a size of the tiles that kernels/product.cuh divides a product into.
type productTile struct {
	suffix  string // of the kernels' names
	m, n, k int    // elements of the result, and how much of the depth is in shared memory at once
	threads int
	wide    bool    // not for elements of 64 bits, whose sums would not fit into registers
	speed   float64 // of a multiprocessor full of such tiles, relative to the fastest
	begin   int     // depth that takes as long as the begin and the end of a block
}

var productTiles = []productTile{
	{"128", 128, 128, 8, 256, true, 1, 32},
	{"128x64", 128, 64, 8, 128, true, 0.95, 32},
	{"64x128", 64, 128, 8, 128, true, 0.95, 32},
	{"32x128", 32, 128, 16, 128, true, 0.75, 32},
	{"64", 64, 64, 16, 128, false, 0.78, 32},
	{"32", 32, 32, 16, 128, false, 0.4, 32},
}

// Figures of a large GPU. With these and the speeds above, the choices for TestProductSpeed
// take 6 % longer in all than the best ones that it measured on an H200. They only steer the
// choice of tiles: bits must not depend on the device's number of multiprocessors.
const (
	multiprocessors = 132
	leastChunk      = 128     // of the depth that is worth a block of its own
	mostParts       = 512     // of a sum
	partTraffic     = 48      // multiplications that take as long as one element of a part
	launchWork      = 3 << 18 // multiplications of a multiprocessor during a launch
	mostWarps       = 16      // on a multiprocessor
)

// split is how a product is divided among blocks.
type split struct {
	tile         *productTile
	tiles        int // of the result, over the batch
	parts, chunk int // parts of the sum of each element, of a depth of chunk
}

// tensorTiles are those of kernels/tensor.cuh, which have the same names, for operands of 16
// bits; of TF32 they have half of the depth and of the speed. Their speeds are guesses: no GPU
// has measured them yet.
var tensorTiles = []productTile{
	{"128", 128, 128, 32, 256, true, 8, 128},
	{"128x64", 128, 64, 32, 128, true, 7, 128},
	{"64x128", 64, 128, 32, 128, true, 7, 128},
	{"32x128", 32, 128, 32, 128, true, 5, 128},
	{"64", 64, 64, 32, 128, false, 5, 128},
	{"32", 32, 32, 32, 128, false, 2, 128},
}

// tilesOf are the tiles for elements of so many bytes.
func tilesOf(width int) (list []productTile) {
	for _, t := range productTiles {
		if !t.wide || width <= 4 {
			list = append(list, t)
		}
	}
	return list
}

// tensor reports whether products and convolutions of a dtype run on tensor cores.
func (k *Kernels) tensor(d graph.DType) bool {
	half := d == graph.Float16 || d == graph.BFloat16
	return !k.plain && (k.tf32(d) || half && k.Queue.Device.Arch() >= leastTensor)
}

// leastTensor is the first architecture whose tensor cores multiply 16 x 8 by 16 elements.
const leastTensor = 80

// tiles are those of the kernels of products and convolutions that compute a tensor.
func (n *Node) tiles(y *form.Tensor) []productTile {
	if !n.k.tensor(y.Type) {
		return tilesOf(computeBytes(y))
	}
	list := slices.Clone(tensorTiles)
	if y.Type == graph.Float32 {
		for i := range list {
			list[i].k, list[i].speed, list[i].begin = list[i].k/2, list[i].speed/2, list[i].begin/2
		}
	}
	return list
}

// splitProduct is bestSplit. Tests replace it to see or to set the choice.
var splitProduct = bestSplit

// bestSplit chooses the tile, and into how many parts the sums are divided, which would
// take the least time for a batch of products of m x k and k x n.
func bestSplit(tiles []productTile, m, n, k, batches int) split {
	var best split
	least := math.Inf(1)
	for i := range tiles {
		t := &tiles[i]
		for parts := 1; ; parts += max(1, parts/4) {
			s := t.split(m, n, k, batches, parts)
			if time := s.time(m*n*batches, k); time < least {
				best, least = s, time
			}
			if s.tiles*s.parts >= 4*multiprocessors || cuts(k, parts+1) < leastChunk || parts >= mostParts {
				break
			}
		}
	}
	return best
}

// time is about what a product of that many sums of that depth takes, in multiplications of
// a multiprocessor.
func (s *split) time(sums, depth int) float64 {
	t := s.tile
	blocks := cuts(s.tiles*s.parts, multiprocessors)
	// Few warps do not hide what they wait for.
	warps := float64(min(mostWarps, blocks*t.threads/32))
	busy := warps / (warps + mostWarps/5) * (mostWarps + mostWarps/5) / mostWarps
	time := float64(blocks) * float64(t.m*t.n) * float64(min(s.chunk, depth)+t.begin) / (t.speed * busy)
	if s.parts > 1 {
		time += launchWork + partTraffic*float64(sums)*float64(s.parts)/multiprocessors
	}
	return time
}

// split divides a product into tiles, and its sums into at most that many parts.
func (t *productTile) split(m, n, k, batches, parts int) split {
	s := split{tile: t, tiles: cuts(m, t.m) * cuts(n, t.n) * batches, chunk: cuts(cuts(k, parts), t.k) * t.k}
	s.parts = max(1, cuts(k, max(s.chunk, 1)))
	return s
}

// cuts is the number of pieces of length size that n is cut into.
func cuts(n, size int) int { return (n + size - 1) / size }

// finish is what becomes of the sums of a product; the struct Finish of the kernels.
type finish struct {
	Alpha, Beta, Low, High float32
	Clamps, _              int32
	BiasRow, BiasColumn    int64
}

// noFinish leaves the sums as they are.
func noFinish() finish { return finish{Alpha: 1, Beta: 1} }

// result is the output of a product.
type result struct {
	y, bias, added *form.Tensor // bias and added may be nil
	room           *cuda.Room   // where y is, if it is scratch; else nil
	rows, columns  int          // y has rows x columns elements, or several times as many
	finish         finish
	then           *form.Activation // what the finish cannot do; nil: nothing
}

// productPart is a launch of some tiles of a product.
type productPart struct {
	tiles  int
	params any // what the kernel takes beside the addresses and the finish
}

// place is where the output lies, as a parameter.
func (n *Node) place(r *result) (any, error) {
	if r.room != nil {
		return *r.room, nil
	}
	return n.at(r.y)
}

// aligned reports whether four neighbours of a tensor can be moved together where their
// index is a multiple of 4. A tensor that is a part of another one may begin anywhere.
func (n *Node) aligned(t *form.Tensor) bool {
	at, err := n.at(t)
	return err == nil && at%16 == 0 && t.Len()%4 == 0
}

// launchProduct appends the launches of a product. The kernel's name lacks the suffix of
// the tile. Its parameters are the addresses of y, of the parts, left, right, the bias and
// what is added, then those of the launch, and the finish.
func (n *Node) launchProduct(k cuda.Kernel, s split, r *result, left, right *form.Tensor, list ...productPart) error {
	y, err := n.place(r)
	if err != nil {
		return err
	}
	at, err := n.addresses(left, right, r.bias, r.added)
	if err != nil {
		return err
	}
	if s.tiles > math.MaxInt32 || s.parts > math.MaxUint16 {
		return unsupportedf("a product of %d tiles in %d parts", s.tiles, s.parts)
	}
	k.Name += s.tile.suffix
	parts := n.partsOf(r, s.parts)
	for _, l := range list {
		grid := driver.Dim3{X: uint32(l.tiles), Y: uint32(s.parts), Z: 1}
		block := driver.Dim3{X: uint32(s.tile.threads), Y: 1, Z: 1}
		if err := n.launch3(k, grid, block, 0, y, parts, at[0], at[1], at[2], at[3], l.params, r.finish); err != nil {
			return err
		}
	}
	return n.completeProduct(r, parts, s.parts)
}

// partsOf is the place of the parts of the sums, as a parameter; nil if each is in one.
func (n *Node) partsOf(r *result, count int) any {
	if count == 1 {
		return driver.Ptr(0)
	}
	return n.scratch(int64(count) * int64(r.y.Len()) * int64(computeBytes(r.y)))
}

// completeProduct appends what follows the sums.
func (n *Node) completeProduct(r *result, parts any, count int) error {
	if count > 1 {
		if err := n.addParts(r, parts, count); err != nil {
			return err
		}
	}
	return n.activate(r)
}

// addParts appends the launch that sums up the parts of the sums.
func (n *Node) addParts(r *result, parts any, count int) error {
	y, err := n.place(r)
	if err != nil {
		return err
	}
	at, err := n.addresses(r.bias, r.added)
	if err != nil {
		return err
	}
	if r.y.Len() > math.MaxInt32 {
		return unsupportedf("%d sums in parts", r.y.Len())
	}
	k := n.kernel("finish.cu", "finish", "ELEMENT="+cType[r.y.Type])
	return n.launch(k, blocksFor(r.y.Len()), threadsPerBlock,
		y, parts, at[0], at[1], uint32(r.y.Len()), int32(count), uint32(r.rows), uint32(r.columns), r.finish)
}

// productTypes are the dtypes of products in the kernels.
var productTypes = []graph.DType{
	graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Int32, graph.Int64, graph.Uint32, graph.Uint64,
}

// definitions are productDefinitions for kernels that run on tensor cores where they can.
func (n *Node) definitions(t *form.Tensor, operands ...*form.Tensor) ([]string, error) {
	list, err := productDefinitions(t, operands...)
	if err == nil && n.k.tensor(t.Type) {
		list = append(list, "TENSOR")
	}
	return list, err
}

// productDefinitions are the definitions of a file of products, whose result is t, of
// operands.
func productDefinitions(t *form.Tensor, operands ...*form.Tensor) ([]string, error) {
	if !slices.Contains(productTypes, t.Type) {
		return nil, unsupportedf("dtype %v", t.Type)
	}
	index := "int"
	for _, x := range append(operands, t) {
		if x.Len() > math.MaxInt32 {
			index = "i64"
		}
	}
	list := []string{"ELEMENT=" + cType[t.Type], "INDEX=" + index}
	if t.Type.Bits() <= 32 {
		list = append(list, "WIDE_TILES")
	}
	return list, nil
}
