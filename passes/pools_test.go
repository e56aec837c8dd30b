package passes_test

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

func TestPoolsThatAreRefused(t *testing.T) {
	many := make([]passes.Pool, 9)
	for _, c := range []struct {
		want string
		opt  passes.Options
	}{
		{"expected from 2 to 8", passes.Options{Pools: []passes.Pool{{Name: "a", Capacity: 1}}}},
		{"found 9", passes.Options{Pools: many}},
		{`pool ""`, passes.Options{Pools: []passes.Pool{{Capacity: 1}, {Name: "b"}}}},
		{`pool "a:b"`, passes.Options{Pools: []passes.Pool{{Name: "a:b"}, {Name: "b"}}}},
		{`pool "host"`, passes.Options{Pools: []passes.Pool{{Name: "a"}, {Name: "host"}}}},
		{"each name once", passes.Options{Pools: []passes.Pool{{Name: "a"}, {Name: "A"}}}},
		{"0 or more", passes.Options{Pools: []passes.Pool{{Name: "a", Capacity: -1}, {Name: "b"}}}},
		{"fastest pools first", passes.Options{Pools: []passes.Pool{{Name: "a", BytesPerSecond: 1}, {Name: "b"}, {Name: "c", BytesPerSecond: 2}}}},
		{"each name once", passes.Options{Pools: []passes.Pool{{Name: "a"}, {Name: "host-memory"}}, Host: &passes.Host{Link: 1}}},
	} {
		var wrong *passes.OptionError
		if err := c.opt.Validate(); !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: expected %q", err, c.want)
		}
	}
}

// TestHostIsAPool: beside pools, a host is one more, without a limit, at the place of its speed.
func TestHostIsAPool(t *testing.T) {
	file := network(t, "tiny_resnet8", map[string]int64{"batch": 1}, nil)
	_, plain := accepted(t, file, passes.Options{})
	half := plain.Summary.PeakBytes / 2
	fast, slow := passes.Pool{Name: "fast", Capacity: half}, passes.Pool{Name: "slow", Capacity: half, BytesPerSecond: 1e6}
	host := passes.Pool{Name: "host-memory", Capacity: 1 << 50, BytesPerSecond: 1e9}
	for _, c := range []struct{ given, want []passes.Pool }{
		{[]passes.Pool{fast}, []passes.Pool{fast, host}},
		{[]passes.Pool{fast, slow}, []passes.Pool{fast, host, slow}},
	} {
		_, p := accepted(t, file, passes.Options{Pools: c.given, Host: &passes.Host{Link: 1e9}})
		_, want := accepted(t, file, passes.Options{Pools: c.want})
		if !reflect.DeepEqual(p.Pools, want.Pools) || !reflect.DeepEqual(p.Buffers, want.Buffers) || len(p.Tiers()) != len(c.want) {
			t.Errorf("pools %+v, expected %+v", p.Pools, want.Pools)
		}
	}
}

// TestCopiesOfAnIndex: where caches of a fixed capacity are written may be copied between pools. The
// plan is valid, and nothing is given up.
func TestCopiesOfAnIndex(t *testing.T) {
	file, err := os.ReadFile("../testdata/decoders/llama-any.onnx")
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse("in.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{KVCapacity: 12, Effort: schedule.EffortFast, Pools: []passes.Pool{
		{Name: "fast", Capacity: 2261}, {Name: "slow", Capacity: 1 << 30},
	}})
	if err != nil || len(r.GivenUp) > 0 {
		t.Fatalf("%v, given up %v: expected a valid plan", err, r.GivenUp)
	}
	if !slices.ContainsFunc(r.Model.Graph.Nodes, func(n *graph.Node) bool { return n.IsSwapIn() && n.Name == "write_index.each/fast" }) {
		t.Error("expected that the index is copied")
	}
}

// TestPoolsThatAreTooSmall: the error names what is live together in the graph without slices.
// If slices were looked for, it also says why they do not fit.
func TestPoolsThatAreTooSmall(t *testing.T) {
	file := network(t, "tiny_resnet8", map[string]int64{"batch": 1}, nil)
	_, plain := accepted(t, file, passes.Options{})
	peak := plain.Summary.PeakBytes
	for _, c := range []struct {
		slices passes.Slices
		share  float64 // of the peak, that both pools have together
		want   string
	}{
		{passes.SlicesOff, 0.9, "expected pools in which they fit"},
		{passes.SlicesExact, 0.05, "in which they fit; whatever runs in slices, the graph's inputs take "},
		{passes.SlicesExact, 0.3, "in which they fit; in slices alone "},
	} {
		half := int64(c.share * float64(peak) / 2)
		m, err := onnx.Parse("in.onnx", file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = passes.Optimize(t.Context(), m, passes.Options{Slices: c.slices, Device: slowDevice, Pools: []passes.Pool{{Name: "fast", Capacity: half}, {Name: "slow", Capacity: half}}})
		var full *passes.PoolError
		if !errors.As(err, &full) || full.Load != peak || len(full.Tensors) == 0 || (full.Slices == nil) != (c.slices == passes.SlicesOff) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of the peak: %v: expected %q", c.share, err, c.want)
		}
	}
}

// TestPoolsBelowALimit: the arena of several pools, which is more in sum than the load of any
// step, keeps a limit of the peak: the fast pool is given up as far as that takes.
func TestPoolsBelowALimit(t *testing.T) {
	file := network(t, "tiny_resnet8", map[string]int64{"batch": 1}, nil)
	_, plain := accepted(t, file, passes.Options{})
	peak := plain.Summary.PeakBytes
	pools := []passes.Pool{{Name: "fast", Capacity: peak / 2}, {Name: "slow", Capacity: 4 * peak, BytesPerSecond: 1e8}}
	_, free := accepted(t, file, passes.Options{Pools: pools})
	if free.Summary.ArenaBytes <= peak {
		t.Fatalf("the pools take %d bytes without a limit, expected more than the peak of %d: choose other pools", free.Summary.ArenaBytes, peak)
	}
	if _, p := accepted(t, file, passes.Options{Pools: pools, Limit: &passes.Limit{Percent: 100, Arena: true}}); p.Summary.ArenaBytes > peak {
		t.Errorf("%d bytes below a limit of %d", p.Summary.ArenaBytes, peak)
	}
}

// TestPoolsOfARuntime: a runtime does not know the nodes that copy tensors between pools, so
// its plans have none.
func TestPoolsOfARuntime(t *testing.T) {
	file := network(t, "tiny_resnet8", map[string]int64{"batch": 1}, nil)
	_, plain := accepted(t, file, passes.Options{})
	pools := []passes.Pool{{Name: "fast", Capacity: plain.Summary.PeakBytes / 2}, {Name: "slow", Capacity: 4 * plain.Summary.PeakBytes, BytesPerSecond: 1e8}}
	copies := func(opt passes.Options) (n int) {
		opt.Pools = pools
		_, p := accepted(t, file, opt)
		for _, s := range p.Steps {
			if strings.HasPrefix(s.Op, "onnxmem") {
				n++
			}
		}
		return n
	}
	if copies(passes.Options{}) == 0 {
		t.Error("no copies between pools without a runtime: choose other pools")
	}
	for _, name := range []string{"onnxruntime", "onnxruntime-arena"} {
		if n := copies(passes.Options{Runtime: name}); n > 0 {
			t.Errorf("%s: %d copies between pools", name, n)
		}
	}
}
