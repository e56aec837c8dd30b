package passes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/report"
)

// modelFiles lists the models that tests plan: those of this repository and of the
// test data, where these are.
func modelFiles(t testing.TB) []string {
	t.Helper()
	patterns := []string{"../testdata/light/*.onnx", "../testdata/zoo/*.onnx", "../testdata/nodes/*/model.onnx"}
	root := datafolder.Lookup()
	if root == "" {
		t.Logf("no test data: set %s to its folder", datafolder.Variable)
	} else {
		patterns = append(patterns, filepath.Join(root, "zoo", "*.onnx"), filepath.Join(root, "light", "*.onnx"))
	}
	var files []string
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// planned optimizes a model, encodes it, reads it back and verifies the plan with
// code that the planner does not share.
func planned(t testing.TB, b []byte, opt passes.Options) ([]byte, *plan.Plan) {
	t.Helper()
	out, p, rep := judged(t, b, opt)
	if rep.Schedule == "claimed by search" {
		t.Errorf("the bound is only claimed: %s", rep.Replay)
	}
	return out, p
}

// judged is planned, but also returns the verifier's report.
func judged(t testing.TB, b []byte, opt passes.Options) ([]byte, *plan.Plan, *verify.Report) {
	t.Helper()
	return judgedWith(t, b, opt, verify.Options{Replay: true})
}

// judgedWith is judged by a verifier with some options.
func judgedWith(t testing.TB, b []byte, opt passes.Options, by verify.Options) ([]byte, *plan.Plan, *verify.Report) {
	t.Helper()
	m, err := onnx.Parse("in.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	opt.Check = true
	r, err := passes.Optimize(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(r.Model)
	if err != nil {
		t.Fatal(err)
	}
	out, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	r.Plan.Model = plan.ImageOf("out.onnx", im)
	return out, r.Plan, verified(t, out, r.Plan, by)
}

func verified(t testing.TB, b []byte, p *plan.Plan, by verify.Options) *verify.Report {
	t.Helper()
	m, err := onnx.Parse("out.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := verify.Plan(m, p, by)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Valid {
		t.Fatalf("the plan is not valid:\n%s", rep)
	}
	want := p.Summary
	if diff := cmp.Diff(rep.Summary, want); diff != "" {
		t.Errorf("summary recomputed (-) and planned (+):\n%s", diff)
	}
	return rep
}

// claimedBySearch lists the models whose bound rests on a search that no replay
// can repeat within its limits, with the start of the verifier's message. All
// other bounds are proven, by a flow or by a replay.
var claimedBySearch = map[string]string{
	"randwire_ws-dyn/default": "not replayed: more than 400000000 visits to nodes",
}

// TestPlansAreAccepted: every real model gets a valid plan, with and without
// sharing, under several alignments and strategies. By default its arena equals
// its peak.
func TestPlansAreAccepted(t *testing.T) {
	variants := map[string]passes.Options{
		"default":    {},
		"no-sharing": {NoViews: true, NoInplace: true, Align: 1},
		"no-views":   {NoViews: true, Schedule: "bfs", Align: 4096},
		"no-inplace": {NoInplace: true, Schedule: "dfs"},
	}
	for _, path := range modelFiles(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, ".."), ".onnx")
		for variant, opt := range variants {
			if variant != "default" && len(b) > 300<<10 {
				continue // the variants test rules, not sizes
			}
			t.Run(name+"/"+variant, func(t *testing.T) {
				if filepath.Base(name) == "layered_24k-dyn" {
					sweep.Only(t) // a tenth of the time of all
				}
				word, claimed := claimedBySearch[filepath.Base(name)+"/"+variant]
				replay := !claimed || sweep.On() // giving up takes seconds
				_, p, rep := judgedWith(t, b, opt, verify.Options{Replay: replay})
				if !replay {
					word = ""
				}
				if got := rep.Schedule == "claimed by search"; got != claimed || !strings.HasPrefix(rep.Replay, word) {
					t.Errorf("schedule %s, %s: expected claimed: %v, %s", rep.Schedule, rep.Replay, claimed, word)
				}
				if s := p.Summary; variant == "default" && s.ArenaBytes != s.PeakBytes {
					t.Errorf("arena %d, peak %d: expected no fragmentation", s.ArenaBytes, s.PeakBytes)
				}
			})
		}
	}
}

// TestSamePlanTwice: the same model and options give the same bytes.
func TestSamePlanTwice(t *testing.T) {
	b, err := os.ReadFile("../testdata/light/light_squeezenet.onnx")
	if err != nil {
		t.Fatal(err)
	}
	first, p := planned(t, b, passes.Options{})
	second, q := planned(t, b, passes.Options{})
	if !bytes.Equal(first, second) {
		t.Error("two runs write different models")
	}
	if diff := cmp.Diff(p, q); diff != "" {
		t.Errorf("two runs make different plans:\n%s", diff)
	}
}

// TestSharingNeverHurts: in program order, the peak falls, or stays, with views,
// and again with in-place results, on every built-in network.
func TestSharingNeverHurts(t *testing.T) {
	for _, n := range models.Networks() {
		peak := func(opt passes.Options) int64 {
			m, err := models.Build(n.Name, models.Options{})
			if err != nil {
				t.Fatal(err)
			}
			opt.Schedule = "program"
			r, err := passes.Optimize(t.Context(), m, opt)
			if err != nil {
				t.Fatal(err)
			}
			return r.Plan.Summary.PeakBytes
		}
		none := peak(passes.Options{NoViews: true, NoInplace: true})
		views := peak(passes.Options{NoInplace: true})
		both := peak(passes.Options{})
		if none < views || views < both {
			t.Errorf("%s: peak %d without sharing, %d with views, %d with both", n.Name, none, views, both)
		}
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	m, err := models.Build("resnet18", models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.Source = &graph.Source{Name: "my.onnx"}
	_, err = passes.Optimize(t.Context(), m, passes.Options{StrictDims: true})
	var e *graph.Error
	if !errors.As(err, &e) || e.File != "my.onnx" || !strings.Contains(err.Error(), `dimension "batch" is unbound`) {
		t.Errorf("error %v, expected one about batch in my.onnx", err)
	}
}

func TestPipelineRefusesUnknownPass(t *testing.T) {
	m, err := models.Build("alexnet", models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"place", "nonsense"} {
		if _, err := passes.Optimize(t.Context(), m, passes.Options{Disable: []string{name}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("leaving out %q: error %v, expected one that names it", name, err)
		}
	}
}

func ExampleOptimize() {
	model, err := models.Build("mobilenet_v2", models.Options{Dims: map[string]int64{"batch": 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := passes.Optimize(context.Background(), model, passes.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := result.Plan.Summary
	fmt.Printf("%d nodes, arena %d bytes, proven smallest: %v\n", s.Nodes, s.ArenaBytes, s.ScheduleOptimal && s.PlacementOptimal)
	for _, b := range report.LiveAt(result.Plan, s.PeakStep, 1) {
		fmt.Printf("at the peak: %s at offset %d\n", b.Tensors[0], b.Offset)
	}
	// Output:
	// 152 nodes, arena 6021120 bytes, proven smallest: true
	// at the peak: features.2.expand.conv at offset 0
}
