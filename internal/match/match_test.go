package match_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/internal/match"
)

func TestChains(t *testing.T) {
	for _, c := range []struct {
		name  string
		taken []match.Pair
		want  string
	}{
		{"without pairs each tensor is a chain", nil, "[[0] [1] [2] [3]]"},
		{"one over another over a third", []match.Pair{{Over: 2, Result: 0}, {Over: 0, Result: 3}}, "[[] [1] [2 0 3] []]"},
		{"two chains", []match.Pair{{Over: 0, Result: 1}, {Over: 3, Result: 2}}, "[[0 1] [] [] [3 2]]"},
	} {
		if got, err := match.Chains(4, c.taken); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name  string
		taken []match.Pair
	}{
		{"a result that does not exist", []match.Pair{{Over: 0, Result: 4}}},
		{"a negative tensor", []match.Pair{{Over: -1, Result: 1}}},
		{"a tensor over itself", []match.Pair{{Over: 1, Result: 1}}},
		{"a result over two tensors", []match.Pair{{Over: 0, Result: 2}, {Over: 1, Result: 2}}},
		{"a cycle", []match.Pair{{Over: 0, Result: 1}, {Over: 1, Result: 0}}},
		{"pairs not in the order of their steps", []match.Pair{{Over: 1, Result: 2}, {Over: 0, Result: 1}}},
	} {
		if got, err := match.Chains(4, c.taken); err == nil {
			t.Errorf("%s: got %v, expected an error", c.name, got)
		}
	}
}

func TestLargest(t *testing.T) {
	pair := func(result, over int32) match.Pair { return match.Pair{Result: result, Over: over} }
	m := match.New(6)
	for _, c := range []struct {
		name        string
		pairs, want []match.Pair
	}{
		{"none", nil, nil},
		{"the smallest tensor first", []match.Pair{pair(4, 0), pair(4, 1)}, []match.Pair{pair(4, 0)}},
		{"each result takes the smallest free tensor", []match.Pair{pair(4, 0), pair(4, 1), pair(5, 0), pair(5, 1)}, []match.Pair{pair(4, 0), pair(5, 1)}},
		{"an earlier result moves if the later one has no other tensor", []match.Pair{pair(4, 0), pair(4, 1), pair(5, 0)}, []match.Pair{pair(4, 1), pair(5, 0)}},
		{"one tensor for two results", []match.Pair{pair(4, 0), pair(5, 0)}, []match.Pair{pair(4, 0)}},
	} {
		if got := m.Largest(nil, c.pairs); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
