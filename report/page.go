package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

//go:embed assets
var assets embed.FS

// scripts are joined into the page's single script, in this order.
var scripts = []string{"plan.js", "view.js", "chart.js", "map.js", "table.js", "search.js", "main.js"}

// Page writes a plan as one self-contained HTML page. It has the summary, the load over the
// steps in both orders, the arena as a map of steps and offsets, and the buffers at the peak.
// origin says where the plan comes from and whether it was verified. p must be consistent
// (plan.Check). Whatever names the plan contains, the page runs only its own script, by a
// hash in its security policy, and accesses no network.
func Page(w io.Writer, p *plan.Plan, origin string) error { return writePage(w, p, origin, nil) }

// Recording is what the page of a recorded stream of allocations says in the place of
// what it says about a model.
type Recording struct {
	Format string   // what was recorded
	Lines  []string // what is known about the iteration, for the list at the end
	Bound  int64    // bytes: no arena is smaller
	Others []Taken  // what allocators would take for the same stream
}

// Taken is the memory that an allocator takes.
type Taken struct {
	Name  string
	Bytes int64
}

// RecordingPage writes the page for an iteration of a recording, given as a plan whose
// steps are its events.
func RecordingPage(w io.Writer, p *plan.Plan, r *Recording) error {
	return writePage(w, p, r.Format, r)
}

func writePage(w io.Writer, p *plan.Plan, origin string, r *Recording) error {
	p = p.Flat() // the pictures show one arena
	d, err := dataOf(p)
	if err != nil {
		return err
	}
	data, err := d.marshal()
	if err != nil {
		return err
	}
	v := &page{Plan: p, Sum: &p.Summary, Origin: origin, Recording: r, Data: template.JS(data)}
	v.Title = Title(p)
	v.Script = template.JS("\n" + asset("uplot/uPlot.iife.min.js") + "\n(() => {\n\"use strict\";\n" + asset(scripts...) + "})();\n")
	v.Style = template.CSS("\n" + asset("uplot/uPlot.min.css", "page.css"))
	v.Licence = asset("uplot/LICENSE")
	sum := sha256.Sum256([]byte(v.Script))
	v.Policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	return pageTemplate.Execute(w, v)
}

// Title returns a title for a plan: the name of its model's file.
func Title(p *plan.Plan) string {
	name := p.Model.File
	if name == "" {
		name = p.Source.File
	}
	if name == "" {
		return "plan"
	}
	return units.Name(name)
}

func asset(list ...string) string {
	var b strings.Builder
	for _, name := range list {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // the asset is not embedded
		}
		b.Write(text)
	}
	return b.String()
}

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"bytes": units.Bytes, "short": units.Short, "exact": units.Group, "group": func(n int) string { return units.Group(int64(n)) }, "name": units.Name,
}).ParseFS(assets, "assets/page.html"))

// page is the data of the template.
type page struct {
	Plan   *plan.Plan
	Sum    *plan.Summary
	Title  string
	Origin string

	Recording *Recording // nil: the page is about a model

	Policy  string
	Data    template.JS
	Script  template.JS
	Style   template.CSS
	Licence string
}

// Lead returns the summary in one sentence.
func (v *page) Lead() string {
	s := v.Sum
	if v.Recording != nil {
		text := fmt.Sprintf("Each iteration of this recording fits into %s", units.Short(s.ArenaBytes))
		if s.NaiveBytes > s.ArenaBytes {
			text += fmt.Sprintf("; without sharing memory between blocks, it would need %s", units.Short(s.NaiveBytes))
		}
		return text + "."
	}
	text := fmt.Sprintf("Apart from its weights, this model needs %s of memory", units.Short(s.ArenaBytes))
	switch before := s.ProgramPeakBytes; {
	case s.ArenaBytes < before:
		text += fmt.Sprintf("%s than the %s that the order of its file needs", Less(before, s.ArenaBytes), units.Short(before))
	case s.ArenaBytes == before:
		text += ", as much as in the order of its file"
	}
	if s.NaiveBytes > s.ArenaBytes {
		text += fmt.Sprintf("; without sharing memory between buffers, it would need %s", units.Short(s.NaiveBytes))
	}
	return text + "."
}

// Verdict says whether less memory is possible.
func (v *page) Verdict() string {
	s := v.Sum
	switch {
	case v.Recording != nil && s.ArenaBytes == v.Recording.Bound:
		return "It is proven that no placement of these blocks needs less."
	case v.Recording != nil:
		return fmt.Sprintf("No placement needs less than %s; whether one needs less than this is open.", units.Short(v.Recording.Bound))
	case s.PeakBytes == 0:
		return "There is nothing to order."
	case !s.ScheduleOptimal:
		return fmt.Sprintf("No order needs less than %s, %.2f %% below this peak; whether an order between them exists is open.",
			units.Short(s.LowerBoundBytes), 100*float64(s.PeakBytes-s.LowerBoundBytes)/float64(s.PeakBytes))
	case v.Plan.ClaimedBy() != "":
		return fmt.Sprintf("%s says that no order of its nodes has a lower peak.", units.Name(v.Plan.ClaimedBy()))
	case s.ArenaBytes == s.PeakBytes:
		return "It is proven that no order of its nodes and no placement needs less."
	case s.PlacementOptimal && s.PlacementClaimedBy != "":
		return fmt.Sprintf("It is proven that no order of its nodes has a lower peak, and %s says that no placement of these buffers needs less.", units.Name(s.PlacementClaimedBy))
	case s.PlacementOptimal:
		return "It is proven that no order of its nodes has a lower peak, and that no placement of these buffers needs less."
	}
	return fmt.Sprintf("It is proven that no order of its nodes has a lower peak. Placement adds %.2f %%.", Fragmentation(*s))
}

// Settled reports whether the arena is proven to be the smallest possible.
func (v *page) Settled() bool {
	if v.Recording != nil {
		return v.Sum.ArenaBytes == v.Recording.Bound
	}
	return v.Plan.ClaimedBy() == "" && v.Sum.PlacementClaimedBy == "" && v.Sum.ScheduleOptimal && (v.Sum.ArenaBytes == v.Sum.PeakBytes || v.Sum.PlacementOptimal)
}

// Figure is a tile of the summary.
type Figure struct {
	ID, Name string
	Bytes    int64
	Note     string
}

// Figures returns the tiles of the summary.
func (v *page) Figures() []Figure {
	s := v.Sum
	placed := fmt.Sprintf("fragmentation %.2f %%", Fragmentation(*s))
	if r := v.Recording; r != nil {
		list := []Figure{
			{"peak", "Largest load", s.PeakBytes, "the blocks that are live together"},
			{"bound", "Lower bound", r.Bound, "for any placement"},
			{"arena", "Arena", s.ArenaBytes, placed},
		}
		for i, o := range r.Others {
			list = append(list, Figure{fmt.Sprintf("other%d", i), o.Name, o.Bytes, fmt.Sprintf("%.2f times the arena", float64(o.Bytes)/float64(max(1, s.ArenaBytes)))})
		}
		return list
	}
	return []Figure{
		{"peak", "Peak, planned order", s.PeakBytes, strings.TrimPrefix(Less(s.ProgramPeakBytes, s.PeakBytes), ", ")},
		{"program", "Peak, program order", s.ProgramPeakBytes, "the file's own order"},
		{"bound", "Lower bound", s.LowerBoundBytes, verdict(v.Plan)},
		{"arena", "Arena", s.ArenaBytes, placed},
		{"resident", "Resident", s.ResidentBytes, "weights and constants"},
		{"total", "Arena + resident", s.TotalBytes, ""},
	}
}

// Share is the memory of one kind of buffers at the peak.
type Share struct {
	Kind    string
	Bytes   int64
	Percent float64
}

// AtPeak returns the kinds of buffers at the peak, the largest share first.
func (v *page) AtPeak() []Share {
	kinds := map[string]int64{}
	for _, b := range LiveAt(v.Plan, v.Sum.PeakStep, len(v.Plan.Buffers)) {
		kinds[b.Kind] += b.Bytes
	}
	var list []Share
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, Share{kind, kinds[kind], 100 * float64(kinds[kind]) / float64(max(1, v.Sum.PeakBytes))})
	}
	slices.SortStableFunc(list, func(a, b Share) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
	return list
}

// PeakNode returns the name of the node at the peak.
func (v *page) PeakNode() string {
	if len(v.Plan.Steps) == 0 {
		return ""
	}
	return StepName(v.Plan, v.Sum.PeakStep)
}

// Dims returns the dimensions with their lengths, then the inputs that have values,
// both sorted by name.
func (v *page) Dims() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(v.Plan.Dims)) {
		text := fmt.Sprintf("%s = %v", units.Name(name), v.Plan.Dims[name])
		if v.Plan.Dims[name].Assumed {
			text += " (assumed)"
		}
		list = append(list, text)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Plan.Values)) {
		list = append(list, fmt.Sprintf("%s = %v", units.Name(name), v.Plan.Values[name]))
	}
	return list
}

// Proofs returns the certificates in words.
func (v *page) Proofs() []string {
	var list []string
	for _, c := range v.Plan.Certificates {
		node := fmt.Sprintf("one of %d nodes", len(c.Nodes))
		if len(c.Steps) == 1 {
			node = StepName(v.Plan, c.Steps[0])
		} else if len(c.Nodes) == 1 {
			node = units.Name(c.Nodes[0])
		}
		what := ""
		switch c.Kind {
		case plan.CertificateCut:
			what = fmt.Sprintf("in every order, %s are live while %s runs", units.Bytes(c.ValueBytes), node)
		case plan.CertificateFirst:
			what = fmt.Sprintf("whichever of %d nodes runs first, %s are live then", len(c.Nodes), units.Bytes(c.ValueBytes))
		case plan.CertificateLast:
			what = fmt.Sprintf("whichever of %d nodes runs last, %s are live then", len(c.Nodes), units.Bytes(c.ValueBytes))
		case plan.CertificateSearch:
			what = fmt.Sprintf("an exhaustive search found no order below %s", units.Bytes(c.ValueBytes))
			if c.ClaimedBy != "" {
				what = fmt.Sprintf("%s says that no order is below %s; nothing else has checked it", units.Name(c.ClaimedBy), units.Bytes(c.ValueBytes))
			}
		default:
			what = fmt.Sprintf("%s: %s", units.Name(c.Kind), units.Bytes(c.ValueBytes))
		}
		list = append(list, what)
	}
	return list
}

// Frontier returns the picture of the cost of limits, or nothing if the plan has no
// frontier. All text from files in it is escaped.
func (v *page) Frontier() template.HTML { return template.HTML(frontierPicture(v.Plan, "")) }

// Limited describes the cost of the plan's limit; empty if it has none.
func (v *page) Limited() string {
	if v.Sum.Limited == nil {
		return ""
	}
	if v.Sum.Recast {
		return "Casts: " + recast(v.Sum.Limited)
	}
	text := limited(v.Plan)
	if l := v.Sum.Limited; l.SwappedBuffers > 0 {
		text += ". Swapped: " + units.Bytes(l.SwappedBytes) + Link(l)
	}
	return text
}

// Left returns the first hundred tensors that are left to the runtime.
func (v *page) Left() []plan.Dynamic { return v.Plan.Dynamic[:min(len(v.Plan.Dynamic), 100)] }

// LeftOut returns the number of the other tensors that are left to the runtime.
func (v *page) LeftOut() int { return len(v.Plan.Dynamic) - len(v.Left()) }
