package graph_test

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestDim(t *testing.T) {
	for _, n := range []int64{0, 1, 7, 1<<40 - 1, 1 << 40, 1 << 61} {
		d := graph.AtMost(n)
		if most, ok := d.Max(); d.Exact() || !ok || most != n || d.Identity() != 0 {
			t.Errorf("AtMost(%d): bound %d (%v), exact %v, identity %d", n, most, ok, d.Exact(), d.Identity())
		}
		e := d.WithIdentity(graph.MostIdentities)
		if most, ok := e.Max(); e.Exact() || !ok || most != n {
			t.Errorf("AtMost(%d) with an identity: bound %d (%v), exact %v", n, most, ok, e.Exact())
		}
		if want := int64(graph.MostIdentities); n < 1<<40 && e.Identity() != want {
			t.Errorf("AtMost(%d): identity %d, expected %d", n, e.Identity(), want)
		}
		if e.WithIdentity(0) != d {
			t.Errorf("AtMost(%d): taking the identity away gives %v", n, e.WithIdentity(0))
		}
	}
	if d := graph.AtMost(math.MaxInt64); d != graph.Unknown {
		t.Errorf("a bound of 2^63-1 gives %v, expected no bound", d)
	}
	if d := graph.Dim(5).WithIdentity(3); d != 5 || d.Identity() != 0 {
		t.Errorf("an exact length takes no identity, found %v with %d", d, d.Identity())
	}
	if id := graph.Unknown.Identity(); id != 0 {
		t.Errorf("an unknown length has identity %d", id)
	}
}

func TestSizeOverflow(t *testing.T) {
	for _, c := range []struct {
		t    graph.Type
		want int64
		fail bool
	}{
		{graph.TensorOf(graph.Float32, 2, 3), 24, false},
		{graph.TensorOf(graph.Int4, 3), 2, false},
		{graph.TensorOf(graph.Bool), 1, false},
		{graph.TensorOf(graph.Float32, 0, 1<<62, 1<<62), 0, false},
		{graph.TensorOf(graph.Float32, 1<<32, 1<<32), 0, true},
		{graph.TensorOf(graph.Float32, 1<<61), 0, true},
		{graph.TensorOf(graph.Uint8, 1<<62), 1 << 62, false},
		{graph.TensorOf(graph.Complex128, 1<<59), 0, true},
	} {
		got, exact, ok, err := c.t.Size()
		if (err != nil) != c.fail || got != c.want || ok == c.fail || exact == c.fail {
			t.Errorf("size of %v: %d (exact %v, ok %v), %v; expected %d, fail %v", c.t, got, exact, ok, err, c.want, c.fail)
		}
	}
}
