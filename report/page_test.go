package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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
	"github.com/onnxmem/onnxmem/report/internal/samples"
)

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
	p := samples.Lanes(t, 2000, 24)
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
		size := len(pageOf(t, samples.Lanes(t, n, 48)))
		t.Logf("%d nodes: %d bytes", n, size)
		if size > 5_000_000 {
			t.Errorf("%d nodes: the page has %d bytes, expected at most 5,000,000", n, size)
		}
	}
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
	plain, attacked := pageOf(t, samples.Lanes(t, len(samples.Attacks), 4)), pageOf(t, samples.Hostile(t))
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
	p := samples.Lanes(t, 10, 2)
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
	text, err := samples.Lanes(t, 12, 3).Marshal()
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
	p := samples.Lanes(t, 40, 4)
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
	p := samples.Lanes(t, 3000, 16)
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
