package kernel

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// runOn runs a node with one output of a shape.
func runOn(t *testing.T, node *graph.Node, version int64, d graph.DType, shape []int, in ...*Tensor) *Tensor {
	t.Helper()
	out := blank(d, shape)
	c := &Invocation{Call: form.Call{Node: node, Version: version, In: in, Out: []*Tensor{out}, Runtime: alone{}}}
	if err := prepareAndRun(c, Lookup("", node.Op), 1); err != nil {
		t.Fatalf("%s: %v", node.Op, err)
	}
	return out
}

// A row of Hardmax has its 1 at the first element that no other is larger than: a NaN counts only
// at the beginning.
func TestHardmaxRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	special := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)), 2}
	for n := 1; n < 70; n++ {
		x := blank(graph.Float32, []int{3, n})
		s := data[float32](x)
		for i := range s {
			if s[i] = float32(r.IntN(5)); r.IntN(3) == 0 {
				s[i] = special[r.IntN(len(special))]
			}
		}
		got := data[float32](runOn(t, &graph.Node{Op: "Hardmax", Attrs: attrs(whole1("axis", 1))}, 13, graph.Float32, x.Shape, x))
		for row := range 3 {
			best := 0
			for i, v := range s[row*n : (row+1)*n] {
				if v > s[row*n+best] {
					best = i
				}
			}
			for i, v := range got[row*n : (row+1)*n] {
				if want := float32(truth(i == best)); v != want {
					t.Fatalf("row %v: element %d is %v, want %v", s[row*n:(row+1)*n], i, v, want)
				}
			}
		}
	}
}

// DepthToSpace gives each element of a block its place, for blocks and elements of all sizes.
func TestDepthToSpaceRows(t *testing.T) {
	for _, d := range []graph.DType{graph.Float32, graph.Uint8, graph.Int16, graph.Int64} {
		for b := 1; b < 5; b++ {
			for _, w := range []int{1, 7, 8, 21} {
				const channels, h = 3, 2
				x := blank(d, []int{2, channels * b * b, h, w})
				set, _ := form.Writer(d)
				get, _ := form.Reader(d)
				for i := range x.Len() {
					set(x.At, i, float64(i%251))
				}
				for _, mode := range []string{"DCR", "CRD"} {
					shape := []int{2, channels, h * b, w * b}
					out := runOn(t, &graph.Node{Op: "DepthToSpace", Attrs: attrs(whole1("blocksize", int64(b)), text("mode", mode))}, 13, d, shape, x)
					for i := range out.Len() {
						column, row, ch, image := i%(w*b), i/(w*b)%(h*b), i/(w*b*h*b)%channels, i/(w*b*h*b*channels)
						from := (row%b*b+column%b)*channels + ch
						if mode == "CRD" {
							from = ch*b*b + row%b*b + column%b
						}
						want := float64(((image*channels*b*b+from)*h+row/b)*w + column/b)
						if g := get(out.At, i); g != math.Mod(want, 251) {
							t.Fatalf("%v, blocks of %d, width %d, %s: element %d is %v, want %v", d, b, w, mode, i, g, math.Mod(want, 251))
						}
					}
				}
			}
		}
	}
}

// Transforms of all lengths are those of the definition.
func TestTransforms(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	for n := 1; n <= 72; n++ {
		x := blank(graph.Float32, []int{1, n, 2})
		s := data[float32](x)
		for i := range s {
			s[i] = float32(r.NormFloat64())
		}
		got := data[float32](runOn(t, &graph.Node{Op: "DFT", Attrs: attrs(whole1("axis", 1))}, 17, graph.Float32, x.Shape, x))
		for k := range n {
			sum := complex(0, 0)
			for i := range n {
				sum += complex(float64(s[2*i]), float64(s[2*i+1])) * cmplx.Rect(1, -2*math.Pi*float64(i*k%n)/float64(n))
			}
			if off := cmplx.Abs(complex(float64(got[2*k]), float64(got[2*k+1])) - sum); !(off < 2e-6*math.Sqrt(float64(n))) {
				t.Fatalf("%d numbers: term %d is off by %v", n, k, off)
			}
		}
	}
}

// A mean and a deviation are those of all elements over some axes, contiguous or not.
func TestMeanVarianceNormalization(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for _, axes := range [][]int64{{0, 2, 3}, {1}, {3}, {0, 1, 2, 3}, {2, 3}, {0}} {
		shape := []int{2, 3, 5, 7}
		x := blank(graph.Float32, shape)
		s := data[float32](x)
		for i := range s {
			s[i] = float32(3 + r.NormFloat64())
		}
		got := data[float32](runOn(t, &graph.Node{Op: "MeanVarianceNormalization", Attrs: attrs(ints("axes", axes...))}, 13, graph.Float32, shape, x))
		drop := make([]bool, 4)
		for _, a := range axes {
			drop[a] = true
		}
		group := func(i int) (key int) {
			for a, step := 3, 1; a >= 0; a-- {
				if !drop[a] {
					key += i % shape[a] * step
				}
				step *= shape[a]
				i /= shape[a]
			}
			return key
		}
		count, sum, squares := map[int]float64{}, map[int]float64{}, map[int]float64{}
		for i, v := range s {
			count[group(i)]++
			sum[group(i)] += float64(v)
		}
		for i, v := range s {
			g := group(i)
			d := float64(v) - sum[g]/count[g]
			squares[g] += d * d
		}
		for i, v := range s {
			g := group(i)
			want := (float64(v) - sum[g]/count[g]) / (math.Sqrt(squares[g]/count[g]) + 1e-9)
			if !(math.Abs(float64(got[i])-want) <= 1e-6*(1+math.Abs(want))) {
				t.Fatalf("axes %v: element %d is %v, want %v", axes, i, got[i], want)
			}
		}
	}
}

// Points of few taps give the bits of those of many, in images with any number of channels.
func TestGridSampleOfFewTaps(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 9))
	for channels := 1; channels < 10; channels++ {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for _, mode := range []string{"linear", "nearest"} {
				const h, w, points = 6, 9, 700
				x, grid := blank(graph.Float32, []int{2, channels, h, w}), blank(graph.Float32, []int{2, points, 1, 2})
				for i := range data[float32](x) {
					data[float32](x)[i] = float32(r.NormFloat64())
				}
				for i := range data[float32](grid) {
					data[float32](grid)[i] = float32(r.NormFloat64())
				}
				data[float32](grid)[5] = float32(math.NaN())
				node := &graph.Node{Op: "GridSample", Attrs: attrs(text("mode", mode), text("padding_mode", padding))}
				got := data[float32](runOn(t, node, 20, graph.Float32, []int{2, channels, points, 1}, x, grid))
				taps := 2
				if mode == "nearest" {
					taps = 1
				}
				axes := []gridAxis{newGridAxis(h, false, padding), newGridAxis(w, false, padding)}
				for i, v := range got {
					image, ch, p := i/(channels*points), i/points%channels, i%points
					var all gridPoint
					all.read(axes, []int{w, 1}, data[float32](grid)[2*(image*points+p):][:2], taps)
					if want := all.sum(data[float32](x)[(image*channels+ch)*h*w:][:h*w]); v != want {
						t.Fatalf("%s, %s, %d channels: point %d of channel %d is %v, want %v", mode, padding, channels, p, ch, v, want)
					}
				}
			}
		}
	}
}
