package vm_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// TestLeaveUpdates: new values of parameters and states that Run leaves where they are come
// from Updates, and are those that Run would return. On a device, a step then copies its loss
// to the host and nothing else.
func TestLeaveUpdates(t *testing.T) {
	d, f := onDevice(t)
	p, r := trained(t, classifier(t))
	for _, c := range []struct {
		what string
		opt  vm.Options
	}{{"on the CPU", vm.Options{}}, {"on a device", vm.Options{Device: d}}, {"apart", vm.Options{Device: d, Separate: true}}} {
		whole := newSession(t, p, c.opt)
		c.opt.LeaveUpdates = true
		s := newSession(t, p, c.opt)
		for _, x := range []*vm.Session{whole, s} {
			if err := x.Load(r.Step.Params); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Updates(); err == nil {
			t.Errorf("%s: updates before a run: no error", c.what)
		}
		for step := range 4 {
			want, err := whole.Run(t.Context(), batch())
			if err != nil {
				t.Fatal(err)
			}
			if f != nil {
				f.ResetCounters()
			}
			got, err := s.Run(t.Context(), batch())
			if err != nil {
				t.Fatal(err)
			}
			// The loss, and the word in which kernels note a wrong index.
			if f != nil && c.opt.Device != nil && !c.opt.Separate && f.Counters().DownloadedBytes > 64 {
				t.Errorf("%s: step %d copies %d bytes to the host", c.what, step, f.Counters().DownloadedBytes)
			}
			made := map[string]vm.Value{}
			if step != 1 { // what nobody asks for is there in the next step nevertheless
				if made, err = s.Updates(); err != nil {
					t.Fatal(err)
				}
			}
			for _, o := range p.Outputs() {
				v, returned := got[o.Name]
				if returned == p.Updates(o.Name) {
					t.Errorf("%s: %s: returned by Run: %t", c.what, o.Name, returned)
				}
				if !returned {
					if v, returned = made[o.Name]; !returned {
						continue
					}
				}
				if !bytes.Equal(v.Data, want[o.Name].Data) {
					t.Errorf("%s: step %d: %s has other bits", c.what, step, o.Name)
				}
			}
		}
	}
}

// TestDeviceUpdates: on a device, one kernel computes both new moments of a parameter, which
// nodes at several steps make, with the bits of the nodes apart.
func TestDeviceUpdates(t *testing.T) {
	d, f := onDevice(t)
	for i, n := range smallNetworks {
		if n.name != "bert" && n.name != "resnet18" {
			continue
		}
		if f != nil {
			f.Mode(modes[1+i%(len(modes)-1)])
		}
		p, r := program(t, n.file(t), passes.Options{Train: &autodiff.Options{Optimizer: "adamw"}})
		s := newSession(t, p, vm.Options{Device: d})
		kernels := map[string]string{} // of the node that makes a tensor
		for _, k := range r.Model.Graph.Nodes {
			kernels[r.Model.Graph.Tensors[k.Outputs[0]].Name] = s.KernelOf(k.Name)
		}
		moments := 0
		for name := range kernels {
			w, is := strings.CutSuffix(name, ".adam_m.new")
			if !is {
				continue
			}
			moments++
			if kernels[name] != kernels[w+".adam_v.new"] {
				t.Errorf("%s: the moments of %s are made by the kernels of %s and %s", n.name, w, kernels[name], kernels[w+".adam_v.new"])
			}
		}
		if moments == 0 {
			t.Errorf("%s: no parameter has moments", n.name)
		}
		apart, _ := everyStep(t, p, vm.Options{Device: d, Separate: true}, r.Step.Params, 2)
		for _, opt := range []vm.Options{{Device: d, Poison: true}, {Device: d}} {
			got, _ := everyStep(t, p, opt, r.Step.Params, 2)
			for k := range got {
				sameBits(t, n.name, got[k], apart[k])
			}
		}
	}
}

// TestDeviceTornStates: a step that fails at any node leaves all parameters and states as they
// were, or loses them: a kernel may write new values before the nodes that make them stand.
func TestDeviceTornStates(t *testing.T) {
	d, _ := onDevice(t)
	for _, optimizer := range []string{"sgd", "adamw"} {
		p, r := program(t, classifier(t), passes.Options{Train: &autodiff.Options{Optimizer: optimizer}, UpdatesLast: true})
		s := newSession(t, p, vm.Options{Device: d, NoReplay: true})
		saved := func() ([]byte, error) {
			path := filepath.Join(t.TempDir(), "step.onnx")
			if err := s.Save(path); err != nil {
				return nil, err
			}
			return os.ReadFile(path)
		}
		kept, lost := 0, 0
		for node := range r.Plan.Steps {
			if err := s.Load(r.Step.Params); err != nil {
				t.Fatal(err)
			}
			before, err := saved()
			if err != nil {
				t.Fatal(err)
			}
			undo := s.SetRun(node, func(*kernel.Invocation, *work.Pool) error { return errEnough })
			if _, err := s.Run(t.Context(), batch()); !errors.Is(err, errEnough) {
				t.Fatalf("got %v", err)
			}
			undo()
			switch after, err := saved(); {
			case err != nil:
				lost++
			case !bytes.Equal(after, before):
				t.Errorf("%s: node %d of %d (%s): the step is half done", optimizer, node, len(r.Plan.Steps), r.Plan.Steps[node].Name)
			default:
				kept++
			}
		}
		if kept == 0 || lost == 0 {
			t.Errorf("%s: %d nodes keep the parameters, %d lose them", optimizer, kept, lost)
		}
	}
}
