package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed networks_torch.py
var torchProgram []byte

// torchNetworks are the networks of which PyTorch's packages have their own form.
var torchNetworks = map[string]bool{
	"alexnet": true, "bert": true, "efficientnet_b0": true, "googlenet": true, "mnasnet": true, "mobilenet_v2": true,
	"r3d_18": true, "resnet18": true, "resnet50": true, "vgg16": true, "vit_b_16": true,
}

// torchLine is a line that networks_torch.py prints.
type torchLine struct {
	Mode     string  `json:"mode"`
	Seconds  float64 `json:"seconds"`
	Reserved int64   `json:"reserved_bytes"`
	Version  string  `json:"version"`
}

// torchBatch is the batch at which few networks are compared, and torchBar the most that a
// training step of them may take of PyTorch's, eager.
const (
	torchBatch = 32
	torchBar   = 1.5
)

// barred reports whether the bar is one for this measurement of PyTorch.
func (r *run) barred() bool {
	return r.Batch == torchBatch && r.Mode != inference && strings.HasSuffix(r.What, "eager")
}

// torchJob is a network to measure in PyTorch.
type torchJob struct {
	mode    string // eager or compile
	network string
	batch   int
}

// torchJobs lists what is measured, the most important first: few networks at a large batch,
// eager and compiled, then all at the common batch, eager.
func (m *measurer) torchJobs() (list []torchJob) {
	var names []string
	for _, n := range m.networks {
		if torchNetworks[n.name] && len(n.set) == 0 {
			names = append(names, n.name)
		}
	}
	for _, mode := range []string{"eager", "compile"} {
		for _, name := range names[:min(few, len(names))] {
			list = append(list, torchJob{mode, name, torchBatch})
		}
	}
	for i, name := range names {
		if i >= few || m.opt.Batch != torchBatch {
			list = append(list, torchJob{"eager", name, m.opt.Batch})
		}
	}
	return list
}

// torch measures PyTorch's forms of the networks on the same GPU. Base is our step. Both copy
// the batch from the host at every step.
func (m *measurer) torch(ctx context.Context, p *part) {
	python, program, err := m.torchTools(ctx)
	if err != nil {
		p.Status, p.Message = absent, err.Error()
		return
	}
	for _, j := range m.torchJobs() {
		if ctx.Err() != nil {
			return
		}
		out, err := m.command(ctx, m.work, python, program, strconv.Itoa(j.batch), strconv.Itoa(m.opt.Steps), j.mode, j.network)
		for _, r := range torchRuns(out, j.network, j.mode, j.batch) {
			own := m.measure(ctx, spec{network: j.network, mode: r.Mode, batch: j.batch})
			if r.Base = own.Step; own.Error == "" && r.Step > 0 {
				r.OfTorch = own.Step / r.Step
			}
			m.add(p, r)
		}
		if err != nil {
			m.add(p, &run{Network: j.network, Mode: inference, Batch: j.batch, What: "PyTorch " + j.mode, Error: err.Error()})
		}
	}
}

// torchTools returns python3 with PyTorch for a GPU, and where networks_torch.py is.
func (m *measurer) torchTools(ctx context.Context) (python, program string, err error) {
	if python, err = findTool("python3"); err != nil {
		return "", "", errors.New("no python3 on PATH")
	}
	if _, err := m.command(ctx, m.work, python, "-c", "import torch; torch.cuda.init()"); err != nil {
		return "", "", fmt.Errorf("no PyTorch with a GPU: %w", err)
	}
	program = filepath.Join(m.work, "networks_torch.py")
	return python, program, os.WriteFile(program, torchProgram, 0o644)
}

// torchRuns reads the lines of networks_torch.py; others, such as warnings, are left out.
func torchRuns(out []byte, network, mode string, batch int) (list []*run) {
	for line := range bytes.Lines(out) {
		var t torchLine
		if json.Unmarshal(line, &t) == nil && t.Seconds > 0 {
			list = append(list, &run{Network: network, Mode: t.Mode, Batch: batch, What: "PyTorch " + t.Version + " " + mode, Step: t.Seconds, TakenBytes: t.Reserved})
		}
	}
	return list
}
