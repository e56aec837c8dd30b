package autodiff

import (
	"cmp"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// checkPatterns refuses patterns of names that match no initializer, since a misspelt one
// would silently train another set of parameters. Alternatives are checked one by one.
func (s *trainer) checkPatterns() error {
	var names []string
	merged := map[string]string{} // an Identity's output -> the initializer that it passes on
	for _, t := range s.g.Tensors {
		if t.Data != nil && t.Type.Elem.Floating() {
			names = append(names, t.Name)
		}
	}
	for _, n := range s.g.Nodes {
		if ops.Copies(n) && s.g.Tensors[n.Inputs[0]].Data != nil {
			merged[s.g.Tensors[n.Outputs[0]].Name] = s.g.Tensors[n.Inputs[0]].Name
		}
	}
	patterns := []flagged{{"--trainable", s.opt.Trainable}, {"--freeze", s.opt.Freeze}, {"--untie", s.opt.Untie}}
	for _, p := range s.opt.Groups {
		patterns = append(patterns, flagged{"--group " + p.Name, p.Match})
	}
	for _, p := range patterns {
		if p.pattern == nil {
			continue
		}
		for _, one := range alternatives(p.pattern.String()) {
			if slices.ContainsFunc(names, one.MatchString) {
				continue
			}
			text := one.String()
			for _, name := range slices.Sorted(maps.Keys(merged)) {
				if one.MatchString(name) {
					return graph.Errorf("%s: %q matches no initializer but %s, which an exporter merged into %s: expected a pattern that matches that one, or --untie beside it", p.flag, text, graph.Short(name), graph.Short(merged[name]))
				}
			}
			if len(names) == 0 {
				return graph.Errorf("%s: %q matches no initializer: the model has none of a floating-point type", p.flag, text)
			}
			return graph.Errorf("%s: %q matches no initializer: expected a pattern of their names, such as %s", p.flag, text, atMost(nearest(text, names, mostNames), mostNames))
		}
	}
	return nil
}

// flagged is a pattern and the flag that gives it.
type flagged struct {
	flag    string
	pattern *regexp.Regexp
}

// alternatives splits a pattern: "^a|^b" into "^a" and "^b", and "^(a|b)\.w" into "^(a)\.w"
// and "^(b)\.w". Only alternatives of the whole pattern and of a group that begins it are
// split: in "^head\.(weight|bias)$", the head may well have no bias.
func alternatives(pattern string) []*regexp.Regexp {
	whole := []*regexp.Regexp{regexp.MustCompile(pattern)}
	begin := len(leading.FindString(pattern))
	from, to := begin, len(pattern)
	bars, _ := topBars(pattern, begin)
	if len(bars) == 0 {
		m := opening.FindString(pattern[begin:])
		if m == "" {
			return whole
		}
		from = begin + len(m)
		if bars, to = topBars(pattern, from); len(bars) == 0 || strings.ContainsAny(pattern[to+1:min(to+2, len(pattern))], "*?{") {
			return whole
		}
	}
	var list []*regexp.Regexp
	for i, bar := range append(bars, to) {
		start := from
		if i > 0 {
			start = bars[i-1] + 1
		}
		r, err := regexp.Compile(pattern[:from] + pattern[start:bar] + pattern[to:])
		if err != nil { // flags within the pattern
			return whole
		}
		if start < bar { // an empty alternative is no name
			list = append(list, r)
		}
	}
	return list
}

var (
	leading = regexp.MustCompile(`^\(\?[imsU]+\)`)                   // flags of the whole pattern
	opening = regexp.MustCompile(`^(\^|\\A|\\b)*\((\?:|\?P?<\w+>)?`) // a group that begins it
)

// topBars finds the bars of the group whose contents begin at from, and where it ends.
func topBars(pattern string, from int) (bars []int, end int) {
	depth := 0
	for i := from; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if strings.HasPrefix(pattern[i:], `\Q`) {
				if k := strings.Index(pattern[i:], `\E`); k > 0 {
					i += k
				} else {
					return bars, len(pattern)
				}
			}
			i++
		case '[':
			i += classLength(pattern[i:])
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return bars, i
			}
		case '|':
			if depth == 0 {
				bars = append(bars, i)
			}
		}
	}
	return bars, len(pattern)
}

// classLength is the index of the bracket that closes a character class.
func classLength(class string) int {
	for k := 1; k < len(class); k++ {
		if class[k] != ']' {
			continue
		}
		if _, err := syntax.Parse(class[:k+1], syntax.Perl); err == nil {
			return k
		}
	}
	return len(class)
}

// nearest returns the names whose begin differs least from a pattern, without what stands
// in patterns alone. Names that are equally near keep their order.
func nearest(pattern string, names []string, most int) []string {
	text := strings.ToLower(noName.ReplaceAllString(pattern, ""))
	far := make(map[string]int, len(names))
	for _, name := range names {
		far[name] = distance(text, strings.ToLower(name))
	}
	list := slices.Clone(names)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(far[a], far[b]) })
	return list[:min(len(list), most)]
}

// noName matches what is no part of a name in most patterns.
var noName = regexp.MustCompile(`\(\?[^)]*[:)>]|\\[AzbBQEdDwWsSpP]|[\\^$*+?()|{}\[\]]|^\.|\.$`)

// distance is the least number of edits that make a text the begin of a name, or the begin
// of what follows a separator in the name.
func distance(text, name string) int {
	least := len(text) + 1
	for start := 0; start >= 0; {
		row := make([]int, len(text)+1) // edits from text[:i] to what was read of the name
		for i := range row {
			row[i] = i
		}
		least = min(least, row[len(text)])
		for j := start; j < len(name) && j < start+2*len(text); j++ {
			diagonal := row[0]
			row[0]++
			for i := range len(text) {
				edits := diagonal
				if text[i] != name[j] {
					edits++
				}
				diagonal = row[i+1]
				row[i+1] = min(edits, row[i]+1, diagonal+1)
			}
			least = min(least, row[len(text)])
		}
		k := strings.IndexAny(name[start:], "./:")
		if k < 0 {
			break
		}
		start += k + 1
	}
	return least
}
