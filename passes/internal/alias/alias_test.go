package alias_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes/internal/alias"
)

// net is a graph of storages by name, for tests.
type net struct {
	g     alias.Graph
	names map[string]int32
}

// storages adds storages: "x 128" or, if it may not share bytes, "w! 64".
func newNet(storages ...string) *net {
	n := &net{names: map[string]int32{}}
	n.g.Align = 64
	for _, s := range storages {
		var name string
		var bytes int64
		fmt.Sscan(s, &name, &bytes)
		able := !strings.HasSuffix(name, "!")
		n.names[strings.TrimSuffix(name, "!")] = int32(len(n.g.Bytes))
		n.g.Bytes, n.g.Able = append(n.g.Bytes, bytes), append(n.g.Able, able)
	}
	return n
}

func (n *net) concat(out string, in ...string) {
	node := alias.Node{ID: int32(len(n.g.Nodes))}
	at := int64(0)
	for _, x := range in {
		bytes := n.g.Bytes[n.names[x]]
		node.Ranges = append(node.Ranges, alias.Range{Out: n.names[out], In: n.names[x], At: at, Bytes: bytes})
		at += bytes
	}
	n.g.Nodes = append(n.g.Nodes, node)
}

func (n *net) slice(out, in string, from int64) {
	n.g.Nodes = append(n.g.Nodes, alias.Node{ID: int32(len(n.g.Nodes)), Ranges: []alias.Range{{
		Out: n.names[out], In: n.names[in], From: from, Bytes: n.g.Bytes[n.names[out]],
	}}})
}

// content prints what a storage is made of; a part that its node copies is "copy".
func (n *net) content(l *alias.Layout, name string) string {
	byID := make([]string, len(n.g.Bytes))
	for name, i := range n.names {
		byID[i] = name
	}
	var list []string
	for _, s := range l.Content[n.names[name]] {
		root := "copy"
		if int(s.Root) < len(byID) {
			root = byID[s.Root]
		}
		list = append(list, fmt.Sprintf("%s[%d:%d]", root, s.From, s.To))
	}
	return strings.Join(list, " ")
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name   string
		build  func() *net
		want   map[string]string // content by storage
		chains int
		saved  int64
	}{
		{"a block of a DenseNet is one chain", func() *net {
			n := newNet("x0 64", "x1 64", "x2 128", "c1 128", "c2 256")
			n.concat("c1", "x0", "x1")
			n.concat("c2", "x0", "x1", "x2")
			return n
		}, map[string]string{"c1": "x0[0:64] x1[0:64]", "c2": "x0[0:64] x1[0:64] x2[0:128]"}, 1, 384},
		{"and so it is if each operand is the Concat before", func() *net {
			n := newNet("x0 64", "x1 64", "x2 128", "c1 128", "c2 256")
			n.concat("c1", "x0", "x1")
			n.concat("c2", "c1", "x2")
			return n
		}, map[string]string{"c2": "x0[0:64] x1[0:64] x2[0:128]"}, 1, 384},
		{"a tensor has one place behind another", func() *net {
			n := newNet("x 64", "y 64", "z 64", "a 128", "b 128")
			n.concat("a", "x", "y")
			n.concat("b", "x", "z")
			return n
		}, map[string]string{"a": "x[0:64] y[0:64]", "b": "b[0:128]"}, 1, 128},
		{"an operand whose place is taken is copied", func() *net {
			n := newNet("x 64", "y 64", "z 64", "a 128", "b 128")
			n.concat("a", "x", "y")
			n.concat("b", "z", "y")
			return n
		}, map[string]string{"b": "z[0:64] copy[0:64]"}, 2, 192},
		{"a constant is copied", func() *net {
			n := newNet("x 64", "w! 64", "a 128")
			n.concat("a", "w", "x")
			return n
		}, map[string]string{"a": "copy[0:64] x[0:64]"}, 1, 64},
		{"nothing lies twice in one tensor", func() *net {
			n := newNet("x 64", "a 128")
			n.concat("a", "x", "x")
			return n
		}, map[string]string{"a": "x[0:64] copy[0:64]"}, 1, 64},
		{"rows that change places: one half is copied", func() *net {
			n := newNet("x 192", "h 64", "t 128", "a 192")
			n.slice("h", "x", 0)
			n.slice("t", "x", 64)
			n.concat("a", "t", "h")
			return n
		}, map[string]string{"h": "x[0:64]", "t": "x[64:192]", "a": "x[64:192] copy[0:64]"}, 1, 320},
		{"a slice of a Concat over two operands", func() *net {
			n := newNet("x 128", "y 128", "a 256", "s 128")
			n.concat("a", "x", "y")
			n.slice("s", "a", 64)
			return n
		}, map[string]string{"s": "x[64:128] y[0:64]"}, 1, 384},
		{"a part that does not begin at a multiple of the alignment is copied", func() *net {
			n := newNet("x 96", "y 32", "z 64", "a 192")
			n.concat("a", "x", "y", "z")
			return n
		}, map[string]string{"a": "copy[0:128] z[0:64]"}, 1, 64},
		{"the last part may have any size", func() *net {
			n := newNet("x 64", "y 20", "a 84")
			n.concat("a", "x", "y")
			return n
		}, map[string]string{"a": "x[0:64] y[0:64]"}, 1, 84},
		{"a ring is no chain", func() *net {
			n := newNet("x 64", "y 64", "a 128", "b 128")
			n.concat("a", "x", "y")
			n.concat("b", "y", "x")
			return n
		}, map[string]string{"a": "x[0:64] y[0:64]", "b": "y[0:64] copy[0:64]"}, 1, 192},
	} {
		n := c.build()
		l := n.g.Choose(nil)
		for name, want := range c.want {
			if got := n.content(l, name); got != want {
				t.Errorf("%s: %s is %s, expected %s", c.name, name, got, want)
			}
		}
		if chains := l.Chains(l.Pieces(nil)); len(chains) != c.chains || l.Saved != c.saved {
			t.Errorf("%s: %d chains, %d bytes not copied, expected %d and %d", c.name, len(chains), l.Saved, c.chains, c.saved)
		}
	}
}

// TestLeaveOut: a node that is left out makes room for another.
func TestLeaveOut(t *testing.T) {
	n := newNet("x 64", "y 64", "z 64", "a 128", "b 128")
	n.concat("a", "x", "y")
	n.concat("b", "x", "z")
	l := n.g.Choose(func(node int32) bool { return node == 0 })
	if a, b := n.content(l, "a"), n.content(l, "b"); a != "a[0:128]" || b != "x[0:64] z[0:64]" {
		t.Errorf("a is %s, b is %s", a, b)
	}
}

// TestRelax: without places, every Concat has the bytes of its operands, and pairs are cut
// alike.
func TestRelax(t *testing.T) {
	n := newNet("x 64", "y 64", "z 64", "a 128", "b 128", "r 128", "q 128")
	n.concat("a", "x", "y")
	n.concat("b", "x", "z")
	l := n.g.Relax()
	if a, b := n.content(l, "a"), n.content(l, "b"); a != "x[0:64] y[0:64]" || b != "x[0:64] z[0:64]" {
		t.Errorf("a is %s, b is %s", a, b)
	}
	r, q := n.names["r"], n.names["q"]
	p := l.Pieces([]alias.Pair{{Result: q, Over: r}, {Result: r, Over: n.names["b"]}})
	if len(p.Of[r]) != 2 || len(p.Of[q]) != 2 || len(p.Of[n.names["x"]]) != 1 {
		t.Errorf("r has %d pieces, q %d and x %d, expected 2, 2 and 1", len(p.Of[r]), len(p.Of[q]), len(p.Of[n.names["x"]]))
	}
	if x := p.Of[n.names["x"]][0]; len(p.List[x].Over) != 3 {
		t.Errorf("x lies under %v, expected three storages", p.List[x].Over)
	}
}

// TestExplodes: joins of a storage with itself, one after the other, double its parts each
// time. A dense block, in which each Concat takes all results before it, does not.
func TestExplodes(t *testing.T) {
	storages, bytes := []string{"x0 64"}, int64(64)
	for i := 1; i <= 40; i++ {
		bytes *= 2
		storages = append(storages, fmt.Sprintf("x%d %d", i, bytes))
	}
	doubled := newNet(storages...)
	for i := 1; i <= 40; i++ {
		from := fmt.Sprintf("x%d", i-1)
		doubled.concat(fmt.Sprintf("x%d", i), from, from)
		if got, want := doubled.g.Explodes(), i > 21; got != want {
			t.Errorf("%d joins of a storage with itself explode: %v, expected %v", i, got, want)
		}
	}

	storages, bytes = []string{"y0 64"}, 64
	for i := 1; i <= 200; i++ {
		bytes += 64
		storages = append(storages, fmt.Sprintf("x%d 64", i), fmt.Sprintf("y%d %d", i, bytes))
	}
	dense := newNet(storages...)
	for i := 1; i <= 200; i++ {
		dense.concat(fmt.Sprintf("y%d", i), fmt.Sprintf("y%d", i-1), fmt.Sprintf("x%d", i))
	}
	if dense.g.Explodes() {
		t.Error("a dense block explodes")
	}
}
