package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// precisionPart compares the precisions in which people train.
const precisionPart = "precisions"

// precision is how a training step computes: flags of the plan and of its run, and the name by
// which networks_torch.py knows it.
type precision struct {
	name, torch string
	cast        string   // --autocast
	run         []string // flags of run
}

// precisionList begins with what people use most.
var precisionList = []precision{
	{name: "bf16", torch: "bf16", cast: "bf16"},
	{name: "TF32", torch: "tf32", run: []string{"--tf32"}},
	{name: "fp16", torch: "fp16", cast: "fp16"},
	{name: "float32", torch: "float32"},
}

// precisionNetworks are the networks of the part, the most important first, with their batches.
var precisionNetworks = []spec{
	{network: "resnet50", mode: "adamw", batch: 32},
	{network: "bert", mode: "adamw", batch: 32},
	{network: "vit_b_16", mode: "adamw", batch: 32},
	{network: "gpt2", mode: "adamw", batch: 8}, // of 512 tokens
}

// exported are the networks that Python writes, and not onnxmem model, with fixed lengths; trainingFlags are what
// their plans need besides.
var (
	exported      = map[string]bool{"gpt2": true, decoder: true}
	trainingFlags = map[string][]string{"gpt2": {"--class-axis", "2"}}
)

// Goals of a step: at most so much of PyTorch's time with the same precision.
const (
	eagerGoal   = 1.0
	compileGoal = 1.2
)

// export has networks_torch.py write the file of a network, once.
func (m *measurer) export(ctx context.Context, name, path string) (string, error) {
	if name == decoder {
		return path, nil // its part has written it
	}
	python, program, err := m.torchTools(ctx)
	if err != nil {
		return "", fmt.Errorf("%s is exported by PyTorch: %w", name, err)
	}
	_, err = m.command(ctx, m.work, python, program, "8", path, "export", name, "float32")
	return path, err
}

// precisions measures training steps in each precision, ours beside PyTorch's: first eager for
// all networks, then compiled. What an earlier run had is taken over.
func (m *measurer) precisions(ctx context.Context, p *part) {
	var list []spec
	for _, s := range precisionNetworks {
		if m.chosen(s.network) {
			list = append(list, s)
		}
	}
	python, program, missing := m.torchTools(ctx)
	if missing != nil {
		p.Message = missing.Error()
	}
	ours := map[spec]float64{}
	for _, mode := range []string{"eager", "compile"} {
		for _, s := range list {
			for _, c := range precisionList {
				if ctx.Err() != nil {
					return
				}
				s.cast = c.cast
				key := s
				key.costs = c.name // float32 and TF32 have one plan
				if mode == "eager" {
					r := m.resumed(s, c.name)
					if r == nil {
						r = m.execute(ctx, s, c.run...)
						r.What = c.name
					}
					ours[key] = r.Step
					m.add(p, r)
				}
				if missing != nil {
					continue
				}
				for _, r := range m.inTorch(ctx, python, program, s, c, mode) {
					if r.Base = ours[key]; r.Base > 0 && r.Step > 0 {
						r.OfTorch = r.Base / r.Step
					}
					m.add(p, r)
				}
			}
		}
	}
}

// chosen reports whether a network is to be measured: all are unless some are named.
func (m *measurer) chosen(name string) bool {
	if m.opt.Networks == "" {
		return true
	}
	for _, n := range m.networks {
		if n.name == name {
			return true
		}
	}
	return false
}

// inTorch measures the training step of a network in PyTorch.
func (m *measurer) inTorch(ctx context.Context, python, program string, s spec, c precision, mode string) []*run {
	what := mode + " " + c.name
	if r := m.resumed(s, what); r != nil {
		return []*run{r}
	}
	out, err := m.command(ctx, m.work, python, program, strconv.Itoa(s.batch), strconv.Itoa(m.opt.Steps), mode, s.network, c.torch)
	list := torchRuns(out, s.network, what, s.batch)
	if err != nil {
		list = append(list, &run{Network: s.network, Mode: s.mode, Batch: s.batch, What: "PyTorch " + what, Error: err.Error()})
	}
	return list
}

// takeOver reads the runs of the part that an earlier run wrote, if there was one.
func (m *measurer) takeOver() error {
	path := filepath.Join(m.opt.Out, "results.json")
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	var d document
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return fmt.Errorf("--resume: %s: %w", path, err)
	}
	for _, r := range d.Runs {
		if r.Part == precisionPart && r.Error == "" && d.Tool == m.doc.Tool && d.Fake == m.doc.Fake {
			m.earlier = append(m.earlier, r)
		}
	}
	return nil
}

// resumed returns what an earlier run measured: what names the precision, and PyTorch's mode
// before it.
func (m *measurer) resumed(s spec, what string) *run {
	for _, r := range m.earlier {
		if r.Network == s.network && r.Mode == s.mode && r.Batch == s.batch && (r.What == what || strings.HasPrefix(r.What, "PyTorch ") && strings.HasSuffix(r.What, " "+what)) {
			again := *r
			return &again
		}
	}
	return nil
}

// goal is the most that our step may take of PyTorch's with the same precision; 0: there is none.
func (r *run) goal() float64 {
	switch {
	case r.Part != precisionPart:
		return 0
	case strings.Contains(r.What, " compile "):
		return compileGoal
	}
	return eagerGoal
}
