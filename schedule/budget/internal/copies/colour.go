package copies

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// net is a problem as a graph whose vertices are nodes and tensors: vertex i is node i, and
// vertex nodes+t is tensor t. An edge goes from a tensor to its readers, and from a node to what it makes.
type net struct {
	nodes   int
	in, out [][]int32 // vertex -> its neighbours, ascending, each once
	label   []uint64  // vertex -> what it has beside its edges
}

func newNet(p *schedule.Problem) *net {
	g := &net{nodes: len(p.Nodes)}
	n := len(p.Nodes) + len(p.Tensors)
	g.in, g.out, g.label = make([][]int32, n), make([][]int32, n), make([]uint64, n)
	ops := map[string]uint64{}
	for v := range p.Nodes {
		x := &p.Nodes[v]
		if _, ok := ops[x.Op]; !ok {
			ops[x.Op] = uint64(len(ops))
		}
		g.label[v] = mix(mix(mix(1, ops[x.Op]), uint64(x.Workspace)), bit(x.Once))
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		at := int32(g.nodes + i)
		g.label[at] = mix(mix(mix(2, uint64(t.Bytes)), bit(t.Resident)), bit(t.Output))
		if t.Producer >= 0 {
			g.in[at] = []int32{t.Producer}
			g.out[t.Producer] = append(g.out[t.Producer], at)
		}
		readers := slices.Clone(t.Consumers)
		slices.Sort(readers)
		for _, v := range slices.Compact(readers) {
			if v != t.Producer {
				g.in[v] = append(g.in[v], at)
				g.out[at] = append(g.out[at], v)
			}
		}
	}
	return g
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// mix returns a hash of a pair, the same in each run.
func mix(a, b uint64) uint64 {
	x := (a ^ 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	x ^= x>>29 ^ b*0x94d049bb133111eb
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// colours returns a colour for each vertex: two vertices have the same one if their
// neighbourhoods are alike up to that distance. O(distance x edges). Different neighbourhoods may
// share a colour by chance, so what follows from colours is confirmed.
func (g *net) colours(distance int) []uint64 {
	now, next := slices.Clone(g.label), make([]uint64, len(g.label))
	for range distance {
		for v := range now {
			var in, out uint64
			for _, u := range g.in[v] {
				in += mix(now[u], 3)
			}
			for _, u := range g.out[v] {
				out += mix(now[u], 4)
			}
			next[v] = mix(mix(now[v], in), out)
		}
		now, next = next, now
	}
	return now
}
