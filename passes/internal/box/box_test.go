package box_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// drawn is a random graph, whose tensors have factor * length + constant bytes.
type drawn struct {
	consumers        [][]int32 // of the tensor that each node makes
	factor, constant []int64
}

func draw(t *rapid.T, most int) drawn {
	n := rapid.IntRange(2, most).Draw(t, "nodes")
	d := drawn{consumers: make([][]int32, n)}
	for i := range n {
		d.factor = append(d.factor, int64(rapid.IntRange(0, 9).Draw(t, "factor")))
		d.constant = append(d.constant, int64(rapid.IntRange(0, 40).Draw(t, "constant")))
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				d.consumers[j] = append(d.consumers[j], int32(i))
			}
		}
	}
	return d
}

// at returns the problem of a length, and the bytes of its tensors.
func (d *drawn) at(length int64) (*schedule.Problem, []int64) {
	p := &schedule.Problem{Nodes: make([]schedule.Node, len(d.consumers))}
	var bytes []int64
	for i, list := range d.consumers {
		p.Nodes[i].Name = fmt.Sprint("n", i)
		bytes = append(bytes, d.factor[i]*length+d.constant[i])
		p.Tensors = append(p.Tensors, schedule.Tensor{Name: fmt.Sprint("t", i), Bytes: bytes[i], Producer: int32(i), Consumers: list, Output: len(list) == 0})
	}
	return p, bytes
}

// points returns the points of a graph.
func (d *drawn) points(lengths *dimrange.Box, grid []int) (list []box.Point) {
	for _, i := range grid {
		x := box.Point{Index: i, OwnSame: true}
		x.Problem, x.Bytes = d.at(lengths.At(i)["n"])
		x.Own, _ = d.at(lengths.At(i)["n"])
		list = append(list, x)
	}
	return list
}

func lengths(t *rapid.T) *dimrange.Box {
	b, err := dimrange.NewBox(map[string]dimrange.Lengths{"n": {Low: 1, Count: 7, Step: 1}}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStacks: at each point of a box, also those that were not on the grid, the stacking of a
// graph with a body is a valid placement of what the order needs, no smaller than the bound, which
// a certificate proves; and the polynomials give the sizes.
func TestStacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := lengths(t)
		inner, outer := draw(t, 4), draw(t, 7)
		node := int32(rapid.IntRange(0, len(outer.consumers)-1).Draw(t, "node"))
		grid := lengths.Grid()
		l := box.Graphs{{Index: 0, Outer: 1, Node: node}, {Index: 1, Outer: -1}}
		l[0].Set(inner.points(lengths, grid), false)
		l[1].Set(outer.points(lengths, grid), false)
		x := &box.Search{}
		if err := l.Choose(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		sizes := box.FitSizes(lengths, l)
		for i := range lengths.Points {
			n := lengths.At(i)["n"]
			body, bodyBytes := inner.at(n)
			main, mainBytes := outer.at(n)
			placed, err := l.Place(func(g int, work []int64) (list []int64, err error) {
				bytes := [][]int64{bodyBytes, mainBytes}[g]
				for _, b := range l[g].Chosen.Buffers {
					if b.Node >= 0 {
						list = append(list, work[b.Node])
						continue
					}
					list = append(list, bytes[b.Tensors[0]])
				}
				return list, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			bounds, err := l.BoundAt(t.Context(), x, []*schedule.Problem{body, main}, placed.Arenas)
			if err != nil {
				t.Fatal(err)
			}
			main.Nodes[node].Workspace = placed.Arenas[0]
			for g, p := range []*schedule.Problem{body, main} {
				checkStack(t, l[g], p, placed.Arenas[g])
				if bounds[g].Bytes > placed.Arenas[g] {
					t.Fatalf("length %d, graph %d: bound %d above the arena, %d", n, g, bounds[g].Bytes, placed.Arenas[g])
				}
			}
			main.Nodes[node].Workspace = bounds[0].Bytes
			for g, p := range []*schedule.Problem{body, main} {
				if c := l[g].Proof(&bounds[g]); c.Kind != schedule.KindSearch && box.ProvedBy(p, c) != bounds[g].Bytes {
					t.Fatalf("length %d, graph %d: %+v proves %d, expected %d", n, g, c, box.ProvedBy(p, c), bounds[g].Bytes)
				}
			}
			sizes.Check(map[string]int64{"n": n}, placed.Sizes, func(n int64) int64 { return n })
		}
		sizes.DropWrong()
		for g, x := range l {
			for i, k := range sizes.Of(x) {
				if made := len(x.Chosen.Buffers[i].Tensors) > 0; made != (k >= 0) {
					t.Fatalf("graph %d, buffer %d: polynomial %d: expected one of each tensor, and of no workspace", g, i, k)
				}
			}
		}
	})
}

// checkStack fails unless a graph's stacking is a valid placement of its order at a point.
func checkStack(t *rapid.T, g *box.Graph, p *schedule.Problem, arena int64) {
	e, err := p.Evaluate(g.Chosen.Order)
	if err != nil {
		t.Fatal(err)
	}
	if arena < e.Peak {
		t.Fatalf("arena %d below the peak, %d", arena, e.Peak)
	}
	list, err := g.Chosen.SizesOf(p)
	if err != nil {
		t.Fatal(err)
	}
	offsets := make([]int64, len(list))
	if _, err := g.Chosen.Stack.Place(list, offsets); err != nil {
		t.Fatal(err)
	}
	var buffers alloc.Problem
	for i, b := range g.Chosen.Buffers {
		buffers.Buffers = append(buffers.Buffers, alloc.Buffer{Size: list[i], First: b.First, Last: b.Last})
	}
	if err := buffers.Check(alloc.Placement{Offsets: offsets, Arena: arena}); err != nil {
		t.Fatal(err)
	}
}

// TestChooseOnePoint: of the best orders of a box of one point, the one whose placement is
// smallest is chosen, the first of those; and no more are placed once one is as small as the peak.
func TestChooseOnePoint(t *testing.T) {
	p := &schedule.Problem{Nodes: make([]schedule.Node, 3)}
	for i := range 3 {
		p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 10, Producer: int32(i), Output: true})
	}
	orders := [][]int32{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for _, c := range []struct {
		name   string
		arenas []int64
		want   int // the index of the order
		asked  int // orders that are placed
	}{
		{"the first of the smallest", []int64{50, 40, 40, 45, 60, 50}, 1, 6},
		{"as small as the peak", []int64{50, 30, 30, 45, 60, 50}, 1, 2},
		{"the last", []int64{50, 49, 48, 47, 46, 45}, 5, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &box.Graph{}
			g.Set([]box.Point{{Problem: p}}, false)
			g.Know(30, orders)
			l, err := g.List(t.Context(), &box.Search{})
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			order, placed, err := box.Choose(g, &box.Search{}, l.Orders, func(order []int32, peaks box.Fit) (int64, box.Fit, error) {
				if asked++; peaks.Worst != 1 {
					t.Errorf("the peak of %v is %v times the bound, expected 1", order, peaks.Worst)
				}
				arena := c.arenas[slices.IndexFunc(orders, func(o []int32) bool { return slices.Equal(o, order) })]
				return arena, box.Fit{Worst: box.Ratio(arena, 30)}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(order, orders[c.want]) || placed != c.arenas[c.want] || asked != c.asked {
				t.Errorf("found %v of %d bytes, asked for %d orders: expected %v, %d", order, placed, asked, orders[c.want], c.asked)
			}
		})
	}
}
