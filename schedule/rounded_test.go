package schedule

import (
	"math"
	"testing"
)

func TestRounded(t *testing.T) {
	p := &Problem{
		Nodes:   []Node{{Name: "a", Workspace: 1}, {Name: "b"}},
		Tensors: []Tensor{{Name: "x", Bytes: 65, Producer: 0, Consumers: []int32{1}}, {Name: "y", Bytes: 128, Producer: 1, Output: true}},
	}
	q, err := p.Rounded(64)
	if err != nil {
		t.Fatal(err)
	}
	if got := [3]int64{q.Nodes[0].Workspace, q.Tensors[0].Bytes, q.Tensors[1].Bytes}; got != [3]int64{64, 128, 128} {
		t.Errorf("rounded to %v, want 64, 128, 128", got)
	}
	if p.Nodes[0].Workspace != 1 || p.Tensors[0].Bytes != 65 {
		t.Error("the problem itself changed")
	}
	for _, c := range []struct {
		bytes, to int64
		want      string
	}{
		{64, 0, "alignment: expected 1 or more bytes, found 0"},
		{math.MaxInt64 - 1, 64, `tensor 0 "x": size of 9223372036854775806 bytes: rounded up to 64 it passes 9223372036854775807`},
		{math.MaxInt64 - 191, 64, `tensor 1 "y": size of 128 bytes: all sizes together pass 9223372036854775807`},
	} {
		p.Tensors[0].Bytes = c.bytes
		if _, err := p.Rounded(c.to); err == nil || err.Error() != c.want {
			t.Errorf("%d to %d: got %v, want %s", c.bytes, c.to, err, c.want)
		}
	}
}
