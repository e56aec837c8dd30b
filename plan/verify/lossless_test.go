package verify_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/schedule"
)

// message is a protobuf message as a list of fields.
type message []byte

func (m message) bytes(num protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, num, protowire.BytesType), b)
}

// declaration is a ValueInfoProto: a name, and float32 without a shape.
func declaration(name string) message {
	tensor := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	return message{}.bytes(1, []byte(name)).bytes(2, message{}.bytes(1, tensor))
}

// odd returns an equal model with what files in the wild have. There are declarations of
// tensors that are not there, doc strings, annotations, and unknown fields in every graph;
// the fields of graphs are in another order. depth is that of the graph.
func odd(t *testing.T, file []byte) []byte {
	t.Helper()
	var out message
	each(t, file, func(num protowire.Number, all, payload []byte) {
		if num == 7 {
			out = out.bytes(2999, []byte("before the graph")).bytes(7, oddGraph(t, payload, 0))
			return
		}
		out = append(out, all...)
	})
	return out.bytes(14, message{}.bytes(1, []byte("key")).bytes(2, []byte("value"))).bytes(2998, []byte("last"))
}

func oddGraph(t *testing.T, g []byte, depth int) message {
	groups := map[protowire.Number]message{}
	count := 0
	each(t, g, func(num protowire.Number, all, payload []byte) {
		if num == 1 {
			all = message{}.bytes(1, oddNode(t, payload, depth))
		}
		if count++; count%7 == 0 {
			groups[num] = groups[num].bytes(3000, fmt.Appendf(nil, "between %d", count))
		}
		groups[num] = append(groups[num], all...)
	})
	groups[13] = slices.Concat(groups[13], message{}.bytes(13, declaration(fmt.Sprint("stale ", depth))))
	groups[14] = message{}.bytes(14, message{}.bytes(1, []byte("stale annotation")))
	var out message
	for _, num := range []protowire.Number{13, 5, 12, 1, 11, 15, 14, 2, 10, 16} {
		out = append(out, groups[num]...)
	}
	return out
}

func oddNode(t *testing.T, n []byte, depth int) (out message) {
	each(t, n, func(num protowire.Number, all, payload []byte) {
		if num != 5 {
			out = append(out, all...)
			return
		}
		var a message
		each(t, payload, func(num protowire.Number, all, payload []byte) {
			if num == 6 {
				all = message{}.bytes(6, oddGraph(t, payload, depth+1))
			}
			a = append(a, all...)
		})
		out = out.bytes(5, a)
	})
	return out.bytes(6, []byte("a doc string")).bytes(3001, []byte("unknown"))
}

func each(t *testing.T, m []byte, f func(num protowire.Number, all, payload []byte)) {
	t.Helper()
	for len(m) > 0 {
		num, typ, n := protowire.ConsumeTag(m)
		k := protowire.ConsumeFieldValue(num, typ, m[max(n, 0):])
		if n < 0 || k < 0 {
			t.Fatal("not a message")
		}
		var payload []byte
		if typ == protowire.BytesType {
			payload, _ = protowire.ConsumeBytes(m[n:])
		}
		f(num, m[:n+k], payload)
		m = m[n+k:]
	}
}

// TestPlannedFilesAreLossless: whatever a plan does not change stays, byte for byte, in models
// that were made odd, in their bodies and functions too.
func TestPlannedFilesAreLossless(t *testing.T) {
	files := []string{"../../testdata/zoo/resnet18-b1.onnx", "../../testdata/functions/bodies.onnx", "../../testdata/functions/calls.onnx", "../../testdata/functions/loops.onnx", "../../testdata/wild/declared.onnx", "../../testdata/light/heads.onnx"}
	for _, name := range []string{"greedy_gru-script.onnx", "mobilenet_v2-int8-qdq-b1.onnx"} {
		if path := datafolder.Lookup("zoo", name); path != "" {
			files = append(files, path)
		}
	}
	for _, path := range files {
		plain, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source := odd(t, plain)
		for name, opt := range map[string]passes.Options{
			"plain":   {},
			"nothing": {Fold: passes.FoldOff, Aliases: passes.AliasesOff, Schedule: "program"},
			"slices":  {Slices: passes.SlicesAny, ExtraPercent: 10, Compact: true, NoRecompute: true},
			"repeats": {ExtraPercent: 10},
		} {
			t.Run(filepath.Base(path)+"/"+name, func(t *testing.T) {
				opt.Effort = schedule.EffortFast
				m, err := onnx.Parse("in.onnx", source)
				if err != nil {
					t.Fatal(err)
				}
				r, err := passes.Optimize(t.Context(), m, opt)
				if err != nil {
					t.Fatal(err)
				}
				file := encode(t, r.Model)
				planned := parse(t, file)
				r.Plan.Model = plan.SourceOf(planned)
				from, err := onnx.Parse("in.onnx", source)
				if err != nil {
					t.Fatal(err)
				}
				report := func(file []byte) *verify.Report {
					t.Helper()
					p := *r.Plan
					m := parse(t, file)
					p.Model = plan.SourceOf(m)
					found, err := verify.Plan(m, &p, verify.Options{Source: from})
					if err != nil {
						t.Fatal(err)
					}
					return found
				}
				if got := report(file); !got.Valid {
					t.Fatalf("not valid:\n%s", got)
				}
				// Less, more or other bytes are found.
				for what, wrong := range map[string][]byte{
					"without a declaration of no tensor": without(t, file, 13, "stale 0"),
					"without an annotation":              without(t, file, 14, "stale annotation"),
					"one field more":                     append(slices.Clone(file), message{}.bytes(2997, []byte("new"))...),
				} {
					if got := report(wrong); got.Valid || !slices.ContainsFunc(got.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeLossless }) {
						t.Errorf("%s: expected a violation, found\n%s", what, got)
					}
				}
			})
		}
	}
}

// without leaves out the field of the main graph that begins with a name.
func without(t *testing.T, file []byte, field protowire.Number, name string) (out message) {
	t.Helper()
	each(t, file, func(num protowire.Number, all, payload []byte) {
		if num != 7 {
			out = append(out, all...)
			return
		}
		var g message
		each(t, payload, func(num protowire.Number, all, payload []byte) {
			if num == field {
				first := ""
				each(t, payload, func(num protowire.Number, _, payload []byte) {
					if num == 1 {
						first = string(payload)
					}
				})
				if first == name {
					return
				}
			}
			g = append(g, all...)
		})
		out = out.bytes(7, g)
	})
	return out
}
