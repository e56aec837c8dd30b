package autodiff

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// TestEveryOperatorIsAccountedFor: each operator of package ops has a rule, is expanded
// into others, is replaced when its opset is upgraded, or is listed with the reason why it
// has no gradient. The list states nothing else, and where it says that no floating-point
// number goes in or none comes out, the operator's signature agrees.
func TestEveryOperatorIsAccountedFor(t *testing.T) {
	upgraded := []ruleKey{{"", "Scatter"}, {"", "Upsample"}}
	reals := readSignatures(t)
	counts := map[string]int{}
	for _, domain := range ops.Domains() {
		for _, op := range ops.Names(domain) {
			k := ruleKey{domain, op}
			why := whyWithout(domain, op)
			var found []string
			if rules[k] != nil && rules[k].Grad != nil {
				found = append(found, "a rule")
			}
			if rules[k] != nil && rules[k].Grad == nil {
				found = append(found, "a rule that says 0")
			}
			if expansions[k] != nil && rules[k] == nil {
				found = append(found, "an expansion")
			}
			if slices.Contains(upgraded, k) {
				found = append(found, "an upgrade")
			}
			if why != "" {
				found = append(found, "none: "+why)
			}
			if len(found) != 1 {
				t.Errorf("%s %s has %q: expected a rule, an expansion, an upgrade, or a reason in the list without", domain, op, found)
				continue
			}
			counts[found[0]]++
			if s, known := reals[k]; why == noReals && known && s {
				t.Errorf("%s %s: floating-point numbers go in and come out", domain, op)
			}
		}
	}
	for _, w := range without {
		for _, op := range w.ops {
			if ops.Lookup(w.domain, op) == nil {
				t.Errorf("%s %s is listed, but package ops does not have it", w.domain, op)
			}
		}
	}
	for _, line := range accountOf(counts) {
		t.Log(line)
	}
}

// accountOf is the table of docs/results/gradients.md: how many operators have what, and
// which have no gradient.
func accountOf(counts map[string]int) []string {
	var lines []string
	for _, what := range []string{"a rule", "an expansion", "an upgrade", "a rule that says 0"} {
		var names []string
		for k, r := range rules {
			if what == "a rule that says 0" && r.Grad == nil {
				names = append(names, fullName(k.domain, k.op))
			}
		}
		slices.Sort(names)
		lines = append(lines, fmt.Sprintf("| %s | %d | %s |", what, counts[what], strings.Join(names, ", ")))
	}
	reasons := map[string][]string{}
	for _, w := range without {
		for _, op := range w.ops {
			reasons[w.reason] = append(reasons[w.reason], fullName(w.domain, op))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		slices.Sort(reasons[why])
		lines = append(lines, fmt.Sprintf("| none: %s | %d | %s |", why, len(reasons[why]), strings.Join(reasons[why], ", ")))
	}
	return lines
}

// fullName is an operator's name with its domain; com.microsoft is short for a long list.
func fullName(domain, op string) string {
	return strings.TrimPrefix(strings.Replace(domain, "com.microsoft", "ms", 1)+"."+op, ".")
}

// readSignatures says of each operator whether floating-point numbers can go in and come
// out, by the schemas.
func readSignatures(t *testing.T) map[ruleKey]bool {
	t.Helper()
	b, err := os.ReadFile("../ops/signatures.txt")
	if err != nil {
		t.Fatal(err)
	}
	type signature struct {
		in, out []string
		types   map[string]bool // by symbol: whether it may be a floating-point type
	}
	all := map[ruleKey]*signature{}
	var s *signature
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			s = &signature{types: map[string]bool{}}
			domain := words[0]
			if domain == "ai.onnx" {
				domain = ""
			}
			all[ruleKey{domain, words[1]}] = s
		case strings.Contains("0123456789", words[0][:1]):
			k := slices.Index(words, ">")
			s.in, s.out = append(s.in, words[1:k]...), append(s.out, words[k+1:]...)
		default:
			s.types[words[0]] = slices.ContainsFunc(words[1:], real)
		}
	}
	can := map[ruleKey]bool{}
	for k, s := range all {
		is := func(w string) bool {
			w = strings.TrimRight(w, "?*~")
			return s.types[w] || real(w)
		}
		can[k] = slices.ContainsFunc(s.in, is) && slices.ContainsFunc(s.out, is)
	}
	return can
}

// real reports whether a word of a signature names a floating-point type.
func real(word string) bool {
	name, _, _ := strings.Cut(word, "@")
	for _, d := range []graph.DType{graph.Float16, graph.BFloat16, graph.Float32, graph.Float64} {
		if name == fmt.Sprint(d) {
			return true
		}
	}
	return false
}
