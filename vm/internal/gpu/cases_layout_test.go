package gpu

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

func init() { cases = append(cases, layoutCases...) }

var layoutCases = []nodeCase{
	{op: "Reshape", in: args(noise(3, 4), list(2, 6)), types: allReals, consts: []int{1}},
	{op: "Flatten", in: args(noise(3, 4, 5))},
	{op: "Squeeze", in: args(noise(3, 1, 5), list(1)), consts: []int{1}},
	{op: "Unsqueeze", in: args(wholes(graph.Int64, -9, 9, 3, 5), list(1)), consts: []int{1}},
	{op: "Identity", in: args(flags(77))},
	{op: "BitCast", version: 26, attrs: attrs(whole("to", int64(graph.Int32))), in: args(wholes(graph.Uint32, 0, 99, 77))},

	{op: "Transpose", in: args(noise(70, 45)), types: allReals}, // tiles with edges
	{op: "Transpose", in: args(wholes(graph.Int8, -100, 100, 130, 66))},
	{op: "Transpose", in: args(wholes(graph.Int64, -100, 100, 33, 34))},
	{op: "Transpose", attrs: attrs(ints("perm", 0, 2, 1)), in: args(noise(5, 33, 64))},
	{op: "Transpose", attrs: attrs(ints("perm", 0, 2, 3, 1)), in: args(noise(2, 9, 5, 7))},
	{op: "Transpose", attrs: attrs(ints("perm", 0, 2, 3, 1)), in: args(noise(2, 3, 5, 7))},             // too thin for tiles
	{op: "Transpose", attrs: attrs(ints("perm", 0, 2, 1, 3)), in: args(noise(2, 5, 3, 8))},             // rows of 16 bytes or more
	{op: "Transpose", attrs: attrs(ints("perm", 1, 0, 2)), in: args(noise(5, 3, 7))},                   // rows of odd length
	{op: "Transpose", attrs: attrs(ints("perm", 1, 0, 2)), in: args(noise(33, 9, 4))},                  // matrices of rows
	{op: "Transpose", attrs: attrs(ints("perm", 5, 3, 1, 0, 2, 4)), in: args(noise(2, 3, 2, 3, 2, 3))}, // nothing merges
	{op: "Transpose", attrs: attrs(ints("perm", 3, 1, 2, 4, 0)), in: args(noise(9, 2, 3, 2, 11))},
	{op: "DepthToSpace", attrs: attrs(whole("blocksize", 2)), in: args(noise(2, 8, 3, 5))},
	{op: "DepthToSpace", attrs: attrs(whole("blocksize", 2), text("mode", "CRD")), in: args(noise(2, 8, 3, 5))},
	{op: "SpaceToDepth", attrs: attrs(whole("blocksize", 3)), in: args(noise(2, 3, 6, 9))},

	{op: "Concat", attrs: attrs(whole("axis", 0)), in: args(noise(3, 5), noise(2, 5))},
	{op: "Concat", attrs: attrs(whole("axis", -1)), in: args(noise(7, 5), noise(7, 1), noise(7, 8)), types: allReals},
	{op: "Concat", attrs: attrs(whole("axis", 1)), in: args(flags(2, 3, 5), flags(2, 4, 5))},
	{op: "onnxmem.PutRows", attrs: attrs(whole("axis", 1)), in: args(noise(2, 7, 5), noise(2, 3, 5), list(2), list(1)), consts: []int{2, 3}},
	{op: "Split", attrs: attrs(whole("axis", 1)), in: args(noise(3, 7, 4), list(3, 4)), outputs: 2, consts: []int{1}},
	{op: "Slice", in: args(noise(9, 7, 5), list(1, 0), list(8, 5), list(0, 2), list(2, 3)), consts: []int{1, 2, 3, 4}},
	{op: "Slice", in: args(noise(9, 37), list(-1, 30), list(-100, 2), list(0, 1), list(-2, -1)), consts: []int{1, 2, 3, 4}},
	{op: "Slice", version: 9, attrs: attrs(ints("starts", 1, 2), ints("ends", 3, 99)), in: args(noise(5, 8, 6))},

	{op: "Expand", in: args(noise(3, 1, 5), list(2, 3, 4, 5)), consts: []int{1}},
	{op: "Expand", in: args(noise(5, 3, 1, 1), list(5, 3, 7, 7)), types: allReals, consts: []int{1}},
	{op: "Expand", in: args(scalar(2), list(3000)), consts: []int{1}},
	{op: "Tile", in: args(noise(2, 3, 5), list(2, 1, 3)), consts: []int{1}},
	{op: "Crop", version: 1, attrs: attrs(ints("border", 1, 2, 1, 0)), in: args(noise(2, 3, 6, 7))},
	{op: "CenterCropPad", attrs: attrs(ints("axes", 0, 1)), in: args(noise(10, 7, 3), list(8, 12)), consts: []int{1}},
}

// TestPieces: a copy whose offsets are too large for one launch is cut into some that
// together copy the same elements.
func TestPieces(t *testing.T) {
	whole := copying{width: 4, to: 4000, from: 8000, Move: form.Move{Shape: []int{5, 7, 3}, From: []int{1, -15, 5}, To: []int{21, 3, 1}}}
	var got []int
	for _, limit := range []int{1000, 60, 11, 2} {
		pairs := map[int]int{}
		for _, p := range whole.pieces(limit) {
			for i := range count(p.Shape) {
				rest, x, y := i, 0, 0
				for a := len(p.Shape) - 1; a >= 0; a-- {
					x, y = x+rest%p.Shape[a]*p.From[a], y+rest%p.Shape[a]*p.To[a]
					rest /= p.Shape[a]
				}
				if max(x, -x, y) > limit {
					t.Errorf("limit %d: offsets %d and %d", limit, x, y)
				}
				pairs[int(p.to)+4*y] = int(p.from) + 4*x
			}
		}
		if len(pairs) != count(whole.Shape) {
			t.Errorf("limit %d: %d elements are written, expected %d", limit, len(pairs), count(whole.Shape))
		}
		var list []int
		for i := range count(whole.Shape) {
			list = append(list, pairs[4000+4*i])
		}
		if got == nil {
			got = list
		}
		if !slices.Equal(list, got) {
			t.Errorf("limit %d: elements are copied from other places than in one piece", limit)
		}
	}
}

// TestDivider: a divider divides all numbers below 2^31.
func TestDivider(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 64, 641, 1 << 16, 1<<30 + 1, most} {
		d := divider(n)
		for _, k := range []int{0, 1, n - 1, n, n + 1, 7 * n, 12345678, most / n * n, most/n*n - 1, most} {
			if k < 0 || k > most {
				continue
			}
			got := int(uint64(uint32(k)<<1) * uint64(uint32(d[1])) >> 32 >> d[2])
			if got != k/n {
				t.Errorf("%d / %d: got %d, want %d", k, n, got, k/n)
			}
		}
	}
}
