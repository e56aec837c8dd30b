// Package inspect describes a model: its operators, sizes, dimensions and the peak of the order
// in its file.
package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// Model is a model that was inspected.
type Model struct {
	Name string // its file, for people
	*onnx.File
	*passes.Inspection
	All bool // lists every tensor
}

// Print prints the description for people.
func (m Model) Print(w io.Writer) {
	f, in := m.File, m.Inspection
	fmt.Fprintf(w, "%s: %s", units.Name(m.Name), units.Bytes(int64(len(f.Source.Bytes))))
	if f.Producer != "" {
		fmt.Fprintf(w, ", by %s", units.Name(f.Producer))
	}
	fmt.Fprintf(w, ", IR version %d, opsets", f.IRVersion)
	for _, o := range f.Opsets {
		fmt.Fprintf(w, " %s %d", units.Name(domainName(o.Domain)), o.Version)
	}
	fmt.Fprintln(w)
	for _, l := range onnx.Locations(f.Model) {
		missing := ""
		for _, missed := range f.Missing {
			if missed == l {
				missing = " (not found)"
			}
		}
		fmt.Fprintf(w, "external data in %s%s\n", units.Name(l), missing)
	}
	fmt.Fprintf(w, "parameters  %s, %s\n", units.Group(in.Parameters), units.Bytes(in.Bytes))
	values(w, "inputs", in.Inputs)
	values(w, "outputs", in.Outputs)
	for _, d := range in.Dims {
		how := "given"
		if d.Assumed {
			how = "unbound, taken as 1"
			if d.Value != 1 {
				how = "follows from unbound ones"
			}
		}
		fmt.Fprintf(w, "dimension   %s = %d (%s)\n", units.Name(d.Name), d.Value, how)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Values)) {
		fmt.Fprintf(w, "value       %s = %v (given)\n", units.Name(name), in.Values[name])
	}
	fmt.Fprintf(w, "nodes       %d", in.Nodes)
	if in.AllNodes > in.Nodes {
		fmt.Fprintf(w, ", %d with bodies and functions", in.AllNodes)
	}
	fmt.Fprintln(w)
	operators(w, in.Operators)
	m.sizes(w)
}

func domainName(s string) string {
	if s == "" {
		return "ai.onnx"
	}
	return s
}

func values(w io.Writer, title string, list []passes.Value) {
	const most = 6
	for i, v := range list {
		if i == most {
			fmt.Fprintf(w, "            … %d more\n", len(list)-most)
			return
		}
		if i > 0 {
			title = ""
		}
		fmt.Fprintf(w, "%-11s %s %s\n", title, units.Name(v.Name), v.Type)
	}
}

// operators prints the counts in lines of some 90 characters.
func operators(w io.Writer, list []passes.Operator) {
	line := "  "
	for i, o := range list {
		item := fmt.Sprintf("%s %d", units.Name(o.Name), o.Count)
		if !o.Known {
			item += " (unknown)"
		}
		if i < len(list)-1 {
			item += ", "
		}
		if len(line)+len(item) > 92 {
			fmt.Fprintln(w, strings.TrimRight(line, " "))
			line = "  "
		}
		line += item
	}
	if line != "  " {
		fmt.Fprintln(w, line)
	}
}

func (m Model) sizes(w io.Writer) {
	in := m.Inspection
	if in.Refused != nil {
		fmt.Fprintf(w, "cannot be planned: %s\n", units.OneLine(in.Refused))
		return
	}
	if len(in.Largest) > 0 {
		fmt.Fprintln(w, "largest tensors")
	}
	for _, v := range in.Largest {
		fmt.Fprintf(w, "  %-10s %s %s, made by %s\n", units.Short(v.Bytes), units.Name(v.Name), v.Type, printable.Line(v.Maker))
	}
	const most = 5
	for i, d := range in.Dynamic {
		if i == most {
			fmt.Fprintf(w, "            … %d more\n", len(in.Dynamic)-most)
			break
		}
		title := "dynamic"
		if i > 0 {
			title = ""
		}
		fmt.Fprintf(w, "%-11s %s: %s\n", title, units.Name(d.Tensor), printable.Line(d.Reason))
	}
	s := in.Plan.Summary
	fmt.Fprintf(w, "peak, program order  %s", units.Bytes(s.PeakBytes))
	if len(in.Plan.Steps) > 0 {
		fmt.Fprintf(w, " at step %d of %d (%s)", s.PeakStep, s.Nodes, report.StepName(in.Plan, s.PeakStep))
	}
	fmt.Fprintln(w)
	if m.All {
		fmt.Fprintln(w, "tensors")
		for _, v := range in.Tensors {
			fmt.Fprintf(w, "  %-10s %s %s %s\n", units.Short(v.Bytes), units.Name(v.Name), v.Type, printable.Line(v.Dynamic))
		}
	}
}

// The JSON form of an inspection.
type (
	inspection struct {
		File        string                   `json:"file"`
		Bytes       int64                    `json:"bytes"`
		IRVersion   int64                    `json:"ir_version"`
		Opsets      map[string]int64         `json:"opsets"`
		External    []string                 `json:"external_data"`
		Missing     []string                 `json:"missing_external_data"`
		Nodes       int                      `json:"nodes"`
		AllNodes    int                      `json:"nodes_with_subgraphs_and_functions"`
		Operators   map[string]int           `json:"operators"`
		Unknown     []string                 `json:"unknown_operators"`
		Parameters  int64                    `json:"parameters"`
		ParamBytes  int64                    `json:"initializer_bytes"`
		Inputs      []value                  `json:"inputs"`
		Outputs     []value                  `json:"outputs"`
		Dims        map[string]plan.Dim      `json:"dims"`
		Values      map[string]graph.Literal `json:"values,omitempty"`
		Largest     []value                  `json:"largest"`
		Dynamic     []plan.Dynamic           `json:"dynamic"`
		Tensors     []value                  `json:"tensors,omitempty"`
		ProgramPeak int64                    `json:"program_order_peak_bytes"`
		ProgramStep int                      `json:"program_order_peak_step"`
		Refused     string                   `json:"refused,omitempty"`
	}
	value struct {
		Name    string `json:"name"`
		Type    string `json:"type"`
		Shape   []any  `json:"shape"` // numbers, "<=n" for a bound, "?" for an unknown length; null without a rank
		Bytes   int64  `json:"bytes"`
		Bounded bool   `json:"bounded"`
		Dynamic string `json:"dynamic"`
	}
)

// JSON returns the description as an object for encoding/json.
func (m Model) JSON() any {
	f, in := m.File, m.Inspection
	out := inspection{
		File: m.Name, Bytes: int64(len(f.Source.Bytes)), IRVersion: f.IRVersion, Opsets: map[string]int64{},
		External: orEmpty(onnx.Locations(f.Model)), Missing: orEmpty(f.Missing), Nodes: in.Nodes, AllNodes: in.AllNodes,
		Operators: map[string]int{}, Unknown: []string{}, Parameters: in.Parameters, ParamBytes: in.Bytes,
		Inputs: jsonValues(in.Inputs), Outputs: jsonValues(in.Outputs), Dims: map[string]plan.Dim{}, Values: in.Values,
		Largest: jsonValues(in.Largest), Dynamic: orEmpty(in.Dynamic),
	}
	for _, o := range f.Opsets {
		out.Opsets[domainName(o.Domain)] = o.Version
	}
	for _, o := range in.Operators {
		out.Operators[o.Name] = o.Count
		if !o.Known {
			out.Unknown = append(out.Unknown, o.Name)
		}
	}
	for _, d := range in.Dims {
		out.Dims[d.Name] = plan.Dim{Value: d.Value, Assumed: d.Assumed}
	}
	if m.All {
		out.Tensors = jsonValues(in.Tensors)
	}
	if in.Refused != nil {
		out.Refused = units.OneLine(in.Refused)
	} else {
		out.ProgramPeak, out.ProgramStep = in.Plan.Summary.PeakBytes, in.Plan.Summary.PeakStep
	}
	return out
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func jsonValues(list []passes.Value) []value {
	out := []value{}
	for _, v := range list {
		j := value{Name: v.Name, Type: v.Type.Elem.String(), Bytes: v.Bytes, Bounded: v.Bounded, Dynamic: v.Dynamic}
		if v.Type.Kind != graph.KindTensor {
			j.Type = v.Type.String()
		}
		if v.Type.Ranked {
			j.Shape = []any{}
			for _, d := range v.Type.Shape {
				if d.Exact() {
					j.Shape = append(j.Shape, int64(d))
				} else {
					j.Shape = append(j.Shape, d.String())
				}
			}
		}
		out = append(out, j)
	}
	return out
}
