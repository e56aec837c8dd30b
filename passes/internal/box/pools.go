package box

import "github.com/onnxmem/onnxmem/alloc/stacking"

// Divide stacks the buffers of the order that was chosen in several pools, each pool by itself.
// memory has the pool of each buffer, sizes and offsets their bytes at the corner there. A pool is
// at no point larger than at the corner.
func (g *Graph) Divide(memory []int, pools int, sizes, offsets []int64) error {
	s := *g.Chosen
	s.Memory, s.pools, s.fit, s.arenas = memory, pools, Fit{}, 0
	lives := make([]stacking.Lifetime, len(s.Buffers))
	for i, b := range s.Buffers { // those of two pools are never live together
		shift := memory[i] * (len(s.Order) + 1)
		lives[i] = stacking.Lifetime{First: b.First + shift, Last: b.Last + shift}
	}
	var err error
	if s.Stack, err = stacking.New(lives, stacking.Rank(offsets, sizes)); err != nil {
		return err
	}
	g.Chosen = &s
	return g.measure(&s)
}

// Place returns the bytes that buffers of some sizes need: in several pools, the sum of these.
func (s *Stack) Place(sizes []int64) (arena int64, err error) {
	offsets := make([]int64, len(sizes))
	if arena, err = s.Stack.Place(sizes, offsets); err != nil || s.Memory == nil {
		return arena, err
	}
	arena = 0
	for _, end := range s.Ends(sizes, offsets) {
		arena += end
	}
	return arena, nil
}

// Ends returns the end of the last buffer in each pool, in bytes.
func (s *Stack) Ends(sizes, offsets []int64) []int64 {
	list := make([]int64, s.pools)
	for i, m := range s.Memory {
		list[m] = max(list[m], offsets[i]+sizes[i])
	}
	return list
}
