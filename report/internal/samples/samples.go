// Package samples makes plans for the tests of package report, and of the module browser,
// which opens the report's page in a real browser.
package samples

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
)

// Lanes returns a consistent plan of n buffers. Each buffer lies in one of several
// lanes of the arena, one after the other in time, and a node makes each.
func Lanes(t testing.TB, n, lanes int) *plan.Plan {
	t.Helper()
	p := &plan.Plan{
		Format: plan.Format, Version: plan.Version, Tool: "onnxmem (test)", Mode: "inference", Alignment: 64,
		Model: plan.File{File: "lanes.onnx", Bytes: 1000}, Source: plan.File{File: "source.onnx", Bytes: 900},
		Dims: map[string]plan.Dim{"batch": {Value: 8}, "tokens": {Value: 1, Assumed: true}},
	}
	const tall = 1 << 20
	kinds := []string{plan.KindActivation, plan.KindActivation, plan.KindGradient, plan.KindActivation}
	ends := make([]int, lanes) // the first step at which a lane is free
	change := make([]int64, n+2)
	for i := range n {
		p.Steps = append(p.Steps, plan.Step{Name: fmt.Sprintf("/model/layers.%d/attention/MatMul_%d", i/40, i), Op: "MatMul"})
		lane := i % lanes
		b := plan.Buffer{
			Pool: plan.Arena, Offset: int64(lane) * tall, Bytes: int64(1+(i*7919)%16384) * 64, First: max(i, ends[lane]), Kind: kinds[i%len(kinds)],
			Tensors: []string{fmt.Sprintf("/model/layers.%d/attention/MatMul_%d_output_0", i/40, i)},
		}
		b.Last = min(n-1, b.First+(i*31)%lanes)
		if b.First >= n {
			continue
		}
		ends[lane] = b.Last + 1
		change[b.First] += b.Bytes
		change[b.Last+1] -= b.Bytes
		p.Summary.NaiveBytes += b.Bytes
		p.Buffers = append(p.Buffers, b)
	}
	load := int64(0)
	for i := range p.Steps {
		load += change[i]
		p.Steps[i].LoadBytes = load
		p.ProgramOrder.Steps = append(p.ProgramOrder.Steps, min(n-1, i^1)) // neighbours are exchanged
		p.ProgramOrder.LoadBytes = append(p.ProgramOrder.LoadBytes, load+64*int64(i%5000))
		if load > p.Summary.PeakBytes {
			p.Summary.PeakBytes, p.Summary.PeakStep = load, i
		}
	}
	if n%2 == 1 {
		p.ProgramOrder.Steps[n-1] = n - 1
	}
	p.Pools = []plan.Pool{{Name: plan.Arena, Bytes: int64(lanes) * tall}, {Name: plan.Resident, Bytes: 4096}}
	s := &p.Summary
	s.Nodes, s.Tensors = n, len(p.Buffers)
	s.ProgramPeakBytes = slices.Max(p.ProgramOrder.LoadBytes)
	s.ArenaBytes, s.ResidentBytes, s.TotalBytes = int64(lanes)*tall, 4096, int64(lanes)*tall+4096
	s.LowerBoundBytes = s.PeakBytes / 128 * 64
	p.Certificates = []plan.Certificate{{Kind: plan.CertificateCut, Nodes: []string{p.Steps[s.PeakStep].Name}, Steps: []int{s.PeakStep}, ValueBytes: s.LowerBoundBytes}}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Attacks are names that try to become markup or script in a page.
var Attacks = []string{
	`</script><script>window.pwned=1</script>`,
	`<img src=x onerror="window.pwned=2">`,
	`"><svg onload=window.pwned=3>`,
	`'-window.pwned-'`,
	"<!--<script>",
	`${window.pwned=4}`,
	"]]>\u2028window.pwned=5\u2029",
	"__proto__",
	"\u202egnp.exe",
	"\x1b[31m\x00\xff",
	`{{.Data}}`,
	`javascript:window.pwned=6`,
	`";}</style><style>*{display:none}`,
	strings.Repeat("n", 100_000),
}

// Hostile returns a plan in which every name is an attack.
func Hostile(t testing.TB) *plan.Plan {
	t.Helper()
	p := Lanes(t, len(Attacks), 4)
	for i, name := range Attacks {
		p.Steps[i] = plan.Step{Name: name, Op: name, LoadBytes: p.Steps[i].LoadBytes}
		p.Dims[name] = plan.Dim{Value: 1, Assumed: true}
		p.Dynamic = append(p.Dynamic, plan.Dynamic{Tensor: name, Node: name, Reason: name})
		p.Certificates = append(p.Certificates, plan.Certificate{Kind: name, Nodes: []string{name}})
		p.Pools = append(p.Pools, plan.Pool{Name: name})
		p.Model.File, p.Source.File, p.Mode, p.Tool = name, name, name, name
	}
	for i := range p.Buffers {
		p.Buffers[i].Tensors = []string{Attacks[i%len(Attacks)], Attacks[0]}
	}
	p.Model.File = Attacks[0]
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}
