package vm_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/vm"
)

// cutNet writes a network with 256 KiB of weights, in the model's file or in one beside
// it. It returns the model and the file that holds the weights.
func cutNet(t *testing.T, external bool) (path, weights string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut")
	}
	n := newNet()
	n.input("x", 4, 256)
	n.weight("w", 256, 256)
	n.node("MatMul", "a", "x", "w")
	n.node("Relu", "y", "a")
	n.output("y", 4, 256)
	path = filepath.Join(t.TempDir(), "net.onnx")
	weights = path
	if external {
		d := n.g.Tensors[n.tensor("w")].Data
		weights = filepath.Join(filepath.Dir(path), "w.bin")
		if err := os.WriteFile(weights, d.Raw, 0o666); err != nil {
			t.Fatal(err)
		}
		d.Raw, d.External = nil, &graph.External{Location: "w.bin", Length: d.Bytes}
	}
	n.write(t, path)
	return path, weights
}

// If a file of weights is truncated, every reader fails with an error that names the
// file, at each stage and on each worker, whether whole pages are missing or only the
// last byte of a page.
func TestWeightsAreCut(t *testing.T) {
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{4, 256})}
	for _, external := range []bool{false, true} {
		for _, c := range []struct {
			name   string
			before string // the stage before which the file is truncated
			opt    vm.Options
			all    bool // only the last byte is cut
		}{
			{"before a session is built, which packs them", "session", vm.Options{Workers: 2}, false},
			{"before a guarded session is built, which copies them", "session", vm.Options{Guard: vm.GuardEnd}, false},
			{"before a run that reads them", "run", vm.Options{Workers: 2, NoPack: true}, false},
			{"before a run on one goroutine", "run", vm.Options{Workers: 1, NoPack: true}, false},
			{"before a run that has them packed", "run", vm.Options{}, false},
			{"by a byte", "run", vm.Options{NoPack: true}, true},
		} {
			t.Run(c.name+map[bool]string{true: ", external"}[external], func(t *testing.T) {
				path, weights := cutNet(t, external)
				p, _ := program(t, path, passes.Options{})
				info, err := os.Stat(weights)
				if err != nil {
					t.Fatal(err)
				}
				cut := func(stage string) {
					left := int64(0)
					if c.all {
						left = info.Size() - 1
					}
					if stage == c.before {
						if err := os.Truncate(weights, left); err != nil {
							t.Fatal(err)
						}
					}
				}
				if external && c.before == "session" {
					// Another session maps the file first.
					newSession(t, p, vm.Options{NoPack: true})
				}
				cut("session")
				s, err := p.NewSession(c.opt)
				if err == nil {
					defer s.Close()
					cut("run")
					_, err = s.Run(t.Context(), inputs)
				}
				want := regexp.MustCompile(`^` + regexp.QuoteMeta(weights) + `: (byte \d+ can no longer be read: the file )?was cut to \d+ bytes while it was in use \(expected \d+\)$`)
				if c.opt.Guard != vm.GuardOff && external { // it maps the file itself
					want = regexp.MustCompile(`tensor "w": external data in "w.bin": `)
				}
				var e *graph.Error
				if err == nil || !want.MatchString(err.Error()) || !errors.As(err, &e) {
					t.Errorf("got %v\nwant %v", err, want)
				}
			})
		}
	}
}

// The same holds for a model that is being planned, verified, or inferred.
func TestModelIsCut(t *testing.T) {
	for name, use := range map[string]func(m *graph.Model, p *plan.Plan) error{
		"Optimize": func(m *graph.Model, _ *plan.Plan) error {
			_, err := passes.Optimize(t.Context(), m, passes.Options{})
			return err
		},
		"Compare": func(m *graph.Model, _ *plan.Plan) error {
			_, err := passes.Compare(t.Context(), m, passes.CompareOptions{})
			return err
		},
		"Inspect": func(m *graph.Model, _ *plan.Plan) error {
			return passes.Inspect(t.Context(), m, passes.Options{}).Refused
		},
		"Verify": func(m *graph.Model, p *plan.Plan) error {
			_, err := verify.Plan(m, p, verify.Options{})
			return err
		},
		"New": func(m *graph.Model, p *plan.Plan) error { _, err := vm.New(m, p); return err },
		"initializers": func(m *graph.Model, _ *plan.Plan) error {
			i, err := vm.OpenInitializers(m)
			if err == nil {
				err = i.Check()
				i.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := cutNet(t, false)
			r, err := passes.Optimize(t.Context(), open(t, path).Model, passes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f, err := onnx.Open(path, onnx.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			err = use(f.Model, r.Plan)
			want := regexp.MustCompile(`^` + regexp.QuoteMeta(path) + `: (byte \d+ can no longer be read: the file )?was cut to 0 bytes while it was in use \(expected \d+\)$`)
			var e *graph.Error
			if err == nil || !want.MatchString(err.Error()) || !errors.As(err, &e) {
				t.Errorf("got %v\nwant %v", err, want)
			}
		})
	}
}

// The same holds for the source with which a plan is compared.
func TestSourceIsCut(t *testing.T) {
	path, _ := cutNet(t, false)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	opt := verify.Options{Source: f.Model, SkipAnnotations: true}
	if found, err := verify.Plan(r.Model, r.Plan, opt); err != nil {
		t.Fatal(found, err)
	}
	for _, left := range []int64{int64(len(text)) - 1, 0} {
		if err := os.Truncate(path, left); err != nil {
			t.Fatal(err)
		}
		_, err = verify.Plan(r.Model, r.Plan, opt)
		var e *graph.Error
		if !errors.As(err, &e) || e.File != path || !regexp.MustCompile(`was cut to \d+ bytes while it was in use`).MatchString(err.Error()) {
			t.Errorf("cut to %d bytes: got %v", left, err)
		}
	}
}
