package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/plan"
)

// lanes returns a consistent plan of n buffers. Each buffer lies in one of several
// lanes of the arena, one after the other in time, and a node makes each.
func lanes(t testing.TB, n, lanes int) *plan.Plan {
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

func pageOf(t testing.TB, p *plan.Plan) string {
	t.Helper()
	var b bytes.Buffer
	if err := Page(&b, p, "made for a test"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// between returns the text between begin and end.
func between(t testing.TB, text, begin, end string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, begin)
	inner, _, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("nothing between %q and %q", begin, end)
	}
	return inner
}

// The page's data equals the plan's.
func TestPageData(t *testing.T) {
	p := lanes(t, 2000, 24)
	node := 3
	p.Buffers[5].Bounded = true
	p.Buffers[6].Tensors, p.Buffers[6].Kind, p.Buffers[6].Node = []string{}, plan.KindWorkspace, &node
	var d pageData
	if err := json.Unmarshal([]byte(between(t, pageOf(t, p), `<script type="application/json" id="plan">`, "</script>")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Unit != 64 || len(d.Buffers.First) != len(p.Buffers) {
		t.Fatalf("unit %d, %d buffers, expected 64 and %d", d.Unit, len(d.Buffers.First), len(p.Buffers))
	}
	var got []plan.Buffer
	first, tensor, last := 0, 0, ""
	for i := range d.Buffers.First {
		first += d.Buffers.First[i]
		b := plan.Buffer{
			Pool: d.Pools[d.Buffers.Pool[i]].Name, Offset: d.Buffers.Offset[i] * d.Unit, Bytes: d.Buffers.Bytes[i] * d.Unit,
			First: first, Last: first + d.Buffers.Span[i], Kind: d.Kinds[d.Buffers.Kind[i]],
			Bounded: slices.Contains(d.Buffers.Bounded, i), Tensors: []string{},
		}
		if n := d.Buffers.Node[i] - 1; n >= 0 {
			b.Node = &n
		}
		for range d.Buffers.Count[i] {
			last = last[:d.Buffers.Tensor.Same[tensor]] + d.Buffers.Tensor.Rest[tensor]
			b.Tensors = append(b.Tensors, last)
			tensor++
		}
		got = append(got, b)
	}
	want := slices.Clone(p.Buffers)
	slices.SortStableFunc(want, func(a, b plan.Buffer) int { return a.First - b.First })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want - got +:\n%s", diff)
	}
}

// A page of 2,000 nodes stays below 5 MB, and so does one of 50,000 buffers.
func TestPageSize(t *testing.T) {
	for _, n := range []int{2000, 50_000} {
		size := len(pageOf(t, lanes(t, n, 48)))
		t.Logf("%d nodes: %d bytes", n, size)
		if size > 5_000_000 {
			t.Errorf("%d nodes: the page has %d bytes, expected at most 5,000,000", n, size)
		}
	}
}

// attacks are names that try to become markup or script in a page.
var attacks = []string{
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

// hostile returns a plan in which every name is an attack.
func hostile(t testing.TB) *plan.Plan {
	t.Helper()
	p := lanes(t, len(attacks), 4)
	for i, name := range attacks {
		p.Steps[i] = plan.Step{Name: name, Op: name, LoadBytes: p.Steps[i].LoadBytes}
		p.Dims[name] = plan.Dim{Value: 1, Assumed: true}
		p.Dynamic = append(p.Dynamic, plan.Dynamic{Tensor: name, Node: name, Reason: name})
		p.Certificates = append(p.Certificates, plan.Certificate{Kind: name, Nodes: []string{name}})
		p.Pools = append(p.Pools, plan.Pool{Name: name})
		p.Model.File, p.Source.File, p.Mode, p.Tool = name, name, name, name
	}
	for i := range p.Buffers {
		p.Buffers[i].Tensors = []string{attacks[i%len(attacks)], attacks[0]}
	}
	p.Model.File = attacks[0]
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Names remain text: the page has exactly the elements of its template, its policy
// permits exactly its script, and it fetches nothing.
func TestPageIsSafe(t *testing.T) {
	tags := func(page string) map[string]int {
		count := map[string]int{}
		for _, tag := range regexp.MustCompile(`<(script|style|link|meta|svg|img|iframe|object|base)\b`).FindAllString(strings.ToLower(page), -1) {
			count[tag]++
		}
		return count
	}
	plain, attacked := pageOf(t, lanes(t, len(attacks), 4)), pageOf(t, hostile(t))
	if d := cmp.Diff(tags(plain), tags(attacked)); d != "" {
		t.Errorf("names became elements:\n%s", d)
	}
	if n := strings.Count(strings.ToLower(attacked), "</script"); n != 2 {
		t.Errorf("%d ends of scripts, expected 2", n)
	}
	if len(attacked) > len(plain)+100_000 {
		t.Errorf("long names are not shortened: %d bytes", len(attacked))
	}
	script := between(t, attacked, "<script>", "</script>")
	sum := sha256.Sum256([]byte(script))
	policy := between(t, attacked, `Content-Security-Policy" content="`, `"`)
	if !strings.Contains(policy, base64.StdEncoding.EncodeToString(sum[:])) && !strings.Contains(policy, strings.ReplaceAll(base64.StdEncoding.EncodeToString(sum[:]), "+", "&#43;")) {
		t.Errorf("the policy %s does not name the script", policy)
	}
	if !strings.HasPrefix(policy, "default-src &#39;none&#39;") {
		t.Errorf("the policy %s does not forbid everything by default", policy)
	}
	for _, link := range regexp.MustCompile(`(?:src|href)="[^"]*"`).FindAllString(attacked, -1) {
		if link != `href="#load"` && link != `href="data:,"` {
			t.Errorf("the page refers to %s", link)
		}
	}
}

// A plan with figures that a page cannot show exactly is refused.
func TestPageRefuses(t *testing.T) {
	p := lanes(t, 10, 2)
	p.Pools = append(p.Pools, plan.Pool{Name: "far", Bytes: math.MaxInt64})
	err := Page(&bytes.Buffer{}, p, "")
	if err == nil || !strings.Contains(err.Error(), `pool "far": 8.00 EiB`) {
		t.Errorf("found %v", err)
	}
}

// A plan without nodes, and an empty plan, have a page, pictures and a curve.
func TestEmptyPlans(t *testing.T) {
	for _, p := range []*plan.Plan{
		{},
		{
			Pools:   []plan.Pool{{Name: plan.Arena, Bytes: 64}},
			Buffers: []plan.Buffer{{Pool: plan.Arena, Bytes: 64, Kind: plan.KindInput, Tensors: []string{"x"}}},
			Summary: plan.Summary{NaiveBytes: 64, PeakBytes: 64, ProgramPeakBytes: 64, ArenaBytes: 64, TotalBytes: 64},
		},
	} {
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		var svg, text bytes.Buffer
		if err := Pictures(&svg, p); err != nil {
			t.Fatal(err)
		}
		TextCurve(&text, p, 80, false)
		if page := pageOf(t, p); strings.Contains(page+svg.String()+text.String(), "NaN") {
			t.Error("a figure is not a number")
		}
	}
}

// A plan with any change is refused by Check or shown; nothing panics.
func TestChangedPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	text, err := lanes(t, 12, 3).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	numbers := regexp.MustCompile(`-?\d+|true|false|"[a-z]+"`)
	at := numbers.FindAllIndex(text, -1)
	values := []string{"-1", "0", "1", "64", "9223372036854775807", "-9223372036854775808", `""`, `"arena"`, "null", "true", "[]"}
	shown := 0
	for range 1500 {
		place := at[r.IntN(len(at))]
		changed := slices.Concat(text[:place[0]], []byte(values[r.IntN(len(values))]), text[place[1]:])
		p, err := plan.Read(bytes.NewReader(changed))
		if err != nil || p.Check() != nil {
			continue
		}
		shown++
		var page, svg, curve, summary bytes.Buffer
		if err := Page(&page, p, ""); err != nil {
			continue // figures that a script cannot represent
		}
		if err := Pictures(&svg, p); err != nil {
			t.Fatal(err)
		}
		TextCurve(&curve, p, 80, true)
		Summary(&summary, p)
	}
	if shown < 50 {
		t.Errorf("only %d of 1500 changed plans were shown", shown)
	}
}

// The pictures and the curve, as people see them.
func TestPictures(t *testing.T) {
	p := lanes(t, 40, 4)
	var svg, text bytes.Buffer
	if err := Pictures(&svg, p); err != nil {
		t.Fatal(err)
	}
	TextCurve(&text, p, 72, false)
	for name, got := range map[string]string{"pictures.svg.golden": svg.String(), "curve.golden": text.String()} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s: want - got + (-update rewrites it):\n%s", name, d)
		}
	}
}

// The curve is the same with and without colours, and both a narrow and a wide
// terminal show the peak.
func TestTextCurve(t *testing.T) {
	p := lanes(t, 3000, 16)
	for _, width := range []int{1, 20, 80, 400} {
		var plain, painted bytes.Buffer
		TextCurve(&plain, p, width, false)
		TextCurve(&painted, p, width, true)
		if got := regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(painted.String(), ""); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(plain.String(), " ", "") {
			t.Errorf("width %d: colours change the text:\n%s\n%s", width, got, &plain)
		}
		for _, line := range strings.Split(plain.String(), "\n")[:15] {
			if n := len([]rune(line)); n > max(width, 24) {
				t.Errorf("width %d: a line of %d characters: %s", width, n, line)
			}
		}
	}
}
