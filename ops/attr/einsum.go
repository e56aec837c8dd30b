package attr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Einsum returns the terms of an Einsum and its output, with a label of one byte for
// each axis. The inputs have the given ranks. The axes of an ellipsis are labelled by the
// bytes from 1 on, the last axis first.
func Einsum(n *graph.Node, ranks []int) (terms []string, output string, err error) {
	equation := strings.ReplaceAll(String(n, "equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms = strings.Split(left, ",")
	if len(terms) != len(ranks) {
		return nil, "", fmt.Errorf("equation %q has %d terms, expected %d as there are inputs", graph.Short(equation), len(terms), len(ranks))
	}
	hidden := 0
	for i, term := range terms {
		before, after, dots := strings.Cut(term, "...")
		own := ranks[i] - len(before) - len(after)
		if own < 0 || own > 0 && !dots || own > 'A'-2 {
			return nil, "", fmt.Errorf("input %d has rank %d, expected as many axes as its term %q has", i, ranks[i], graph.Short(term))
		}
		terms[i], hidden = before+dotLabels(own)+after, max(hidden, own)
	}
	if explicit {
		return terms, strings.Replace(right, "...", dotLabels(hidden), 1), nil
	}
	all := strings.Join(terms, "")
	var once []byte
	for i := range len(all) {
		if label := all[i]; label >= 'A' && strings.Count(all, all[i:i+1]) == 1 {
			once = append(once, label)
		}
	}
	slices.Sort(once)
	return terms, dotLabels(hidden) + string(once), nil
}

// dotLabels returns the labels of the last n axes of an ellipsis.
func dotLabels(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(n - i)
	}
	return string(b)
}
