package copies

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// tower returns a network of equal blocks, each a random graph that reads the result of the block before, between
// a start and an end that differ from them. place gives each node's place in its block, -1 outside.
func tower(draw *rand.Rand, blocks, nodes int) (p *schedule.Problem, place []int) {
	p = &schedule.Problem{}
	add := func(bytes int64, from ...int32) int32 {
		v := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, schedule.Node{})
		for _, t := range from {
			p.Tensors[t].Consumers = append(p.Tensors[t].Consumers, v)
		}
		p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: bytes, Producer: v})
		return int32(len(p.Tensors) - 1)
	}
	type step struct {
		bytes int64
		from  []int // earlier steps of the block; -1: the block's input
		mask  bool  // it also reads what all blocks read
	}
	var block []step
	for i := range nodes {
		x := step{bytes: int64(1 + draw.IntN(5)), from: []int{i - 1}, mask: draw.IntN(4) == 0}
		if i > 0 {
			x.from = append(x.from, draw.IntN(i+1)-1)
		}
		block = append(block, x)
	}
	mask := add(3)
	at := add(7, add(9))
	place = []int{-1, -1, -1}
	for range blocks {
		made := make([]int32, nodes)
		for i, x := range block {
			var from []int32
			for _, k := range x.from {
				t := at
				if k >= 0 {
					t = made[k]
				}
				if !slices.Contains(from, t) {
					from = append(from, t)
				}
			}
			if x.mask {
				from = append(from, mask)
			}
			made[i] = add(x.bytes, from...)
			place = append(place, i)
		}
		at = made[nodes-1]
	}
	p.Tensors[add(11, at)].Output = true
	return p, append(place, -1)
}

func TestTowersAreFound(t *testing.T) {
	for seed := range uint64(200) {
		draw := rand.New(rand.NewPCG(seed, 0))
		blocks, nodes := 8+draw.IntN(10), 4+draw.IntN(12)
		p, place := tower(draw, blocks, nodes)
		c := Find(p)
		if c == nil {
			t.Errorf("seed %d: %d blocks of %d nodes: none found", seed, blocks, nodes)
			continue
		}
		places := map[int32]int{}
		in := 0
		for v, role := range c.Role {
			if role < 0 || place[v] < 0 {
				continue
			}
			in++
			if known, ok := places[role]; ok && known != place[v] {
				t.Errorf("seed %d: node %d: role of place %d, but it is at %d", seed, v, known, place[v])
			}
			places[role] = place[v]
		}
		if in < (blocks-2)*nodes {
			t.Errorf("seed %d: %d nodes of %d blocks of %d are in copies", seed, in, blocks, nodes)
		}
		checkWiring(t, p, c)
	}
}

// checkWiring compares each node with that of the next copy: what both read is of the same roles, as far
// as it is in copies, and in copies as far apart.
func checkWiring(t *testing.T, p *schedule.Problem, c *Copies) {
	t.Helper()
	at := map[[2]int32]int32{} // role and copy -> node
	for v, role := range c.Role {
		if role < 0 {
			continue
		}
		key := [2]int32{role, c.Copy[v]}
		if other, ok := at[key]; ok {
			t.Errorf("nodes %d and %d: both of role %d in copy %d", other, v, role, c.Copy[v])
		}
		at[key] = int32(v)
	}
	reads := make([][][2]int32, len(p.Nodes))
	for i, x := range p.Tensors {
		for _, v := range x.Consumers {
			if c.TensorRole[i] >= 0 {
				reads[v] = append(reads[v], [2]int32{c.TensorRole[i], c.TensorCopy[i] - c.Copy[v]})
			}
		}
	}
	differ := 0
	for key, v := range at {
		next, ok := at[[2]int32{key[0], key[1] + 1}]
		if !ok {
			continue
		}
		byRole := func(a, b [2]int32) int { return slices.Compare(a[:], b[:]) }
		slices.SortFunc(reads[v], byRole)
		slices.SortFunc(reads[next], byRole)
		if !slices.Equal(reads[v], reads[next]) {
			differ++
		}
	}
	if differ*5 > len(at) { // the first and the last copy may differ from those between
		t.Errorf("%d of %d nodes read otherwise than those of the next copy", differ, len(at))
	}
}

func TestNothingRepeats(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	p := &schedule.Problem{}
	for v := range int32(60) {
		p.Nodes = append(p.Nodes, schedule.Node{Workspace: int64(v)})
		p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 1 + draw.Int64N(1000), Producer: v})
		if v > 0 {
			from := &p.Tensors[draw.IntN(int(v))]
			from.Consumers = append(from.Consumers, v)
		}
	}
	if c := Find(p); c != nil {
		t.Errorf("%d copies in a graph whose nodes all differ", c.Count)
	}
	if c := Find(&schedule.Problem{}); c != nil {
		t.Errorf("%d copies of nothing", c.Count)
	}
}
