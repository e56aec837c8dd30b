package marks_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/marks"
)

// text prints a group of that number. What it makes and reads is called as in the table, behind a
// prefix.
func text(g *marks.Group, number int, prefix string) string {
	var s strings.Builder
	made, read := map[string]bool{}, map[string]bool{}
	for _, n := range g.Nodes {
		made[n.Role] = true
		var in []string
		for _, name := range n.In {
			if !made[name] && !strings.Contains(s.String(), "in "+prefix+name+"\n") {
				fmt.Fprintf(&s, "in %s%s\n", prefix, name)
			}
			read[name] = true
			in = append(in, prefix+name)
		}
		attributes := ""
		for _, a := range n.Attrs {
			attributes += fmt.Sprintf(" %s=%d", a.Name, a.Int)
		}
		fmt.Fprintf(&s, "%s%s = %s(%s)%s {%q=%q}\n", prefix, n.Role, n.Op, strings.Join(in, ", "), attributes, marks.Key, g.Mark(number, n.Role))
	}
	for _, n := range g.Nodes {
		if !read[n.Role] {
			fmt.Fprintf(&s, "out %s%s\n", prefix, n.Role)
		}
	}
	return s.String()
}

// find lists the groups of a graph in text.
func find(t *testing.T, text string) []*marks.Found {
	t.Helper()
	m, err := graph.Parse(t.Name(), "ir 10\nopset 18\n"+text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return marks.Find(m.Graph)
}

// A group is found as its table has it.
func TestFind(t *testing.T) {
	var all strings.Builder
	for i, g := range marks.Groups {
		all.WriteString(text(g, i, g.Name))
		all.WriteString(text(g, i+7, "b"+g.Name))
	}
	list := find(t, all.String())
	if len(list) != 2*len(marks.Groups) {
		t.Fatalf("%d groups, expected %d", len(list), 2*len(marks.Groups))
	}
	for i, found := range list {
		g := marks.Groups[i/2]
		if found.Group != g || len(found.Nodes) != len(g.Nodes) {
			t.Errorf("group %d is %s of %d nodes, expected %s of %d", i, found.Group.Name, len(found.Nodes), g.Name, len(g.Nodes))
		}
		for _, n := range g.Nodes {
			for _, name := range append(slices.Clone(n.In), n.Role) {
				if _, bound := found.Of[name]; !bound {
					t.Errorf("%s: %s is not bound", g.Name, name)
				}
			}
		}
	}
}

// Whatever is not as in the table makes a group none: each node's operator, attributes, mark and
// operands, and how many it has.
func TestFindRefuses(t *testing.T) {
	for _, g := range marks.Groups {
		whole := text(g, 3, "")
		for _, n := range g.Nodes {
			line := regexp.MustCompile(`(?m)^` + n.Role + ` = .*\n`)
			change := func(what, from, to string) {
				t.Helper()
				old := line.FindString(whole)
				if changed := strings.Replace(old, from, to, 1); changed == old {
					t.Errorf("%s: %s: %q is not in %q", g.Name, what, from, old)
				} else if list := find(t, "in other\n"+line.ReplaceAllLiteralString(whole, changed)); len(list) > 0 {
					t.Errorf("%s is found with %s: %s", g.Name, what, changed)
				}
			}
			change("another operator", n.Op, "Max")
			change("another domain", n.Op, "com.example::"+n.Op)
			if name := n.In[0]; strings.Count(whole, "("+name+",")+strings.Count(whole, "("+name+")")+strings.Count(whole, ", "+name+")") > 1 || g.Node(name) != nil {
				change("another operand", "("+name, "(other")
			}
			change("one more operand", "(", "(other, ")
			change("another role", n.Role+`"`, `x"`)
			change("another number", "/3 ", "/4 ")
			change("another group", g.Name, "softmax.gradient")
			change("no mark", marks.Key, "onnxmem.of")
			change("one more attribute", ") ", ") axis=0 ")
			if len(n.In) > 1 {
				change("operands in another order", n.In[0]+", "+n.In[1], n.In[1]+", "+n.In[0])
			}
			for _, a := range n.Attrs {
				change("another attribute", fmt.Sprintf("%s=%d", a.Name, a.Int), a.Name+"=0")
				change("an attribute of another type", fmt.Sprintf("%s=%d", a.Name, a.Int), a.Name+"=1.0")
			}
		}
	}
}

// A copy of a node belongs to those that read it. Where some read the node and some the copy, no
// group is whole; where all do, it is.
func TestFindCopies(t *testing.T) {
	for _, g := range marks.Groups {
		whole := text(g, 0, "")
		for _, n := range g.Nodes {
			line := regexp.MustCompile(`(?m)^` + n.Role + ` = .*\n`).FindString(whole)
			again := strings.Replace(line, n.Role, "again", 1)
			read := regexp.MustCompile(`([(,] ?)` + n.Role + `([,)])`)
			readers := len(read.FindAllString(whole, -1))
			head, tail, _ := strings.Cut(whole, line)
			if list := find(t, head+line+again+read.ReplaceAllString(tail, "${1}again$2")); readers > 0 && len(list) != 1 {
				t.Errorf("%s: all read the copy of %s: %d groups, expected 1", g.Name, n.Role, len(list))
			}
			first := true
			some := read.ReplaceAllStringFunc(tail, func(s string) string {
				if first {
					first = false
					return strings.Replace(s, n.Role, "again", 1)
				}
				return s
			})
			if list := find(t, head+line+again+some); readers > 1 && len(list) > 0 {
				t.Errorf("%s: one of %d reads the copy of %s: %d groups, expected none", g.Name, readers, n.Role, len(list))
			}
		}
	}
}

// Copies of a whole group, as slices make them, are groups with one number.
func TestFindSlices(t *testing.T) {
	for _, g := range marks.Groups {
		if list := find(t, text(g, 5, "a.")+text(g, 5, "b.")); len(list) != 2 {
			t.Errorf("%s: %d groups, expected 2", g.Name, len(list))
		}
	}
}
