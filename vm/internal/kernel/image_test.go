package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// selection is a NonMaxSuppression of random boxes.
type selection struct {
	images, classes, n int
	most               int64
	overlap, least     float32
	center             bool
	boxes, scores      []float32
}

// newSelection draws boxes that often overlap, touch, have no area or are upside down,
// and scores of which many are equal.
func newSelection(r *rand.Rand, images, classes, n int) *selection {
	s := &selection{
		images: images, classes: classes, n: n,
		most: r.Int64N(int64(n) + 3), overlap: r.Float32(), least: float32(math.Inf(-1)), center: r.IntN(2) == 0,
	}
	if r.IntN(2) == 0 {
		s.least = r.Float32() - 0.5
	}
	s.boxes, s.scores = make([]float32, images*n*4), make([]float32, images*classes*n)
	for i := range s.boxes {
		s.boxes[i] = float32(r.IntN(12)) + float32(r.IntN(3))/3
	}
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 0}
	for i := range s.scores {
		s.scores[i] = float32(r.IntN(n+1))/float32(n) - 0.5
		if r.IntN(20) == 0 {
			s.scores[i] = odd[r.IntN(len(odd))]
			s.boxes[r.IntN(len(s.boxes))] = odd[r.IntN(len(odd))]
		}
	}
	return s
}

// overlaps computes the intersection of boxes i and j over their union.
func (s *selection) overlaps(i, j int) float32 {
	side := func(i, axis int) (low, high float32) {
		b := s.boxes[4*i:]
		if s.center {
			middle, half := b[1-axis], b[3-axis]/2
			return middle - half, middle + half
		}
		return min(b[axis], b[axis+2]), max(b[axis], b[axis+2])
	}
	both, first, second := float32(1), float32(1), float32(1)
	for axis := range 2 {
		a, b := side(i, axis)
		c, d := side(j, axis)
		shared := min(b, d) - max(a, c)
		if shared <= 0 {
			return 0
		}
		both, first, second = both*shared, first*(b-a), second*(d-c)
	}
	if all := first + second - both; !(all <= 0) {
		return both / all
	}
	return 0
}

// plainly compares each box with all that have been selected.
func (s *selection) plainly() []int64 {
	var kept []int64
	for at := range s.images * s.classes {
		scores, first := s.scores[at*s.n:][:s.n], at/s.classes*s.n
		left := []int{}
		for i, v := range scores {
			if v > s.least {
				left = append(left, i)
			}
		}
		slices.SortStableFunc(left, func(a, b int) int {
			switch {
			case scores[a] > scores[b]:
				return -1
			case scores[a] < scores[b]:
				return 1
			}
			return 0
		})
		var chosen []int
		for _, i := range left {
			if int64(len(chosen)) < s.most && !slices.ContainsFunc(chosen, func(j int) bool { return s.overlaps(first+i, first+j) > s.overlap }) {
				chosen = append(chosen, i)
				kept = append(kept, int64(at/s.classes), int64(at%s.classes), int64(i))
			}
		}
	}
	return kept
}

// finding is the runtime of a node whose kernel finds the shape of its output.
type finding struct {
	alone
	out *Tensor
}

func (f *finding) Resize(_ int, shape []int) error {
	*f.out = *cleared(graph.Int64, shape)
	return nil
}

// kernel returns a node with its inputs.
func (s *selection) kernel() (*finding, Run, error) {
	fill := func(list []float32, shape ...int) *Tensor {
		t := floats(shape...)
		copy(data[float32](t), list)
		return t
	}
	f := &finding{out: &Tensor{Type: graph.Int64}}
	node := &graph.Node{Op: "NonMaxSuppression"}
	if s.center {
		node.Attrs = attrs(whole1("center_point_box", 1))
	}
	run, err := Lookup("", "NonMaxSuppression").Prepare(&Invocation{Call: form.Call{Node: node, Version: 11, Runtime: f, Out: tensors(f.out), In: tensors(
		fill(s.boxes, s.images, s.n, 4), fill(s.scores, s.images, s.classes, s.n),
		number64(s.most, 1), fill([]float32{s.overlap}, 1), fill([]float32{s.least}, 1))}})
	return f, run, err
}

// NonMaxSuppression selects the same boxes, in the same order, as a comparison of each box
// with all selected ones.
func TestNonMaxSuppression(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for round := range 400 {
		n := 1 + r.IntN(60)
		if round%50 == 0 {
			n = 1000 + r.IntN(1000)
		}
		s := newSelection(r, 1+r.IntN(2), 1+r.IntN(3), n)
		f, run, err := s.kernel()
		if err != nil {
			t.Fatal(err)
		}
		pool := work.New(1)
		if err := run(pool); err != nil {
			t.Fatal(err)
		}
		pool.Close()
		if want, got := s.plainly(), data[int64](f.out); !slices.Equal(got, want) {
			t.Fatalf("round %d: %d boxes, at most %d of overlap %v above %v, center %v: got %v, want %v", round, n, s.most, s.overlap, s.least, s.center, got, want)
		}
	}
}

func BenchmarkNonMaxSuppression(b *testing.B) {
	for _, n := range []int{1000, 20_000} {
		for _, most := range []int64{100, 1 << 20} {
			b.Run(fmt.Sprintf("boxes=%d/most=%d", n, most), func(b *testing.B) {
				r := rand.New(rand.NewPCG(3, 5))
				s := newSelection(r, 1, 1, n)
				s.most, s.overlap, s.least, s.center = most, 0.5, float32(math.Inf(-1)), true
				for i := range s.scores {
					s.scores[i] = r.Float32()
				}
				for i := range n {
					copy(s.boxes[4*i:], []float32{600 * r.Float32(), 600 * r.Float32(), 10 + 40*r.Float32(), 10 + 40*r.Float32()})
				}
				_, run, err := s.kernel()
				if err != nil {
					b.Fatal(err)
				}
				pool := work.New(1)
				defer pool.Close()
				for b.Loop() {
					if err := run(pool); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
