package match

import "fmt"

// Chains joins in-place pairs into chains of tensors, each written over the one before:
// the tensors of a chain share one buffer. Element t of the result is the chain that
// begins with tensor t, which is [t] if t is in no pair, and nil if t is written over
// another tensor. The pairs must be in the order of their steps. Chains fails if a pair
// names a tensor that is not one of the n, or if its result is not a chain by itself: it
// was in an earlier pair, or the pair closes a cycle. O(n + pairs).
func Chains(n int, taken []Pair) ([][]int32, error) {
	head := make([]int32, n) // tensor -> the first tensor of its chain
	chains := make([][]int32, n)
	for t := range head {
		head[t] = int32(t)
		chains[t] = []int32{int32(t)}
	}
	for _, pair := range taken {
		if min(pair.Over, pair.Result) < 0 || int(max(pair.Over, pair.Result)) >= n || len(chains[pair.Result]) != 1 || head[pair.Over] == pair.Result {
			return nil, fmt.Errorf("in-place pair: expected two of %d tensors, the later one in no other pair before, found %d over %d", n, pair.Result, pair.Over)
		}
		h := head[pair.Over]
		head[pair.Result], chains[pair.Result] = h, nil
		chains[h] = append(chains[h], pair.Result)
	}
	return chains, nil
}
