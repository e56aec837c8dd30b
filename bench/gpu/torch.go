package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

//go:embed torch.py
var torchProgram []byte

// torchNetworks are the networks of which PyTorch's packages have their own form.
var torchNetworks = map[string]bool{
	"alexnet": true, "bert": true, "efficientnet_b0": true, "googlenet": true, "mnasnet": true, "mobilenet_v2": true,
	"r3d_18": true, "resnet18": true, "resnet50": true, "vgg16": true, "vit_b_16": true,
}

// torchLine is a line that torch.py prints.
type torchLine struct {
	Mode     string  `json:"mode"`
	Seconds  float64 `json:"seconds"`
	Reserved int64   `json:"reserved_bytes"`
	Version  string  `json:"version"`
}

// torch measures PyTorch's forms of the networks on the same GPU: all eager, then few
// compiled. Base is our step.
func (m *measurer) torch(ctx context.Context, p *part) {
	python, err := findTool("python3")
	if err != nil {
		p.Status, p.Message = absent, "no python3 on PATH"
		return
	}
	if _, err := m.command(ctx, m.work, python, "-c", "import torch; torch.cuda.init()"); err != nil {
		p.Status, p.Message = absent, fmt.Sprintf("no PyTorch with a GPU: %v", err)
		return
	}
	program := filepath.Join(m.work, "torch.py")
	if err := os.WriteFile(program, torchProgram, 0o644); err != nil {
		p.Status, p.Message = failed, err.Error()
		return
	}
	for _, mode := range []string{"eager", "compile"} {
		compared := 0
		for _, n := range m.networks {
			if !torchNetworks[n.name] || len(n.set) > 0 || mode == "compile" && compared == few {
				continue
			}
			if ctx.Err() != nil {
				return
			}
			compared++
			out, err := m.command(ctx, m.work, python, program, strconv.Itoa(m.opt.Batch), strconv.Itoa(m.opt.Steps), mode, n.name)
			for _, r := range torchRuns(out, n.name, mode, m.opt.Batch) {
				if own := m.measured[spec{network: n.name, mode: r.Mode, batch: m.opt.Batch}]; own != nil {
					r.Base = own.Step
				}
				m.add(p, r)
			}
			if err != nil {
				m.add(p, &run{Network: n.name, Mode: inference, Batch: m.opt.Batch, What: "PyTorch " + mode, Error: err.Error()})
			}
		}
	}
}

// torchRuns reads the lines of torch.py; others, such as warnings, are left out.
func torchRuns(out []byte, network, mode string, batch int) (list []*run) {
	for line := range bytes.Lines(out) {
		var t torchLine
		if json.Unmarshal(line, &t) == nil && t.Seconds > 0 {
			list = append(list, &run{Network: network, Mode: t.Mode, Batch: batch, What: "PyTorch " + t.Version + " " + mode, Step: t.Seconds, TakenBytes: t.Reserved})
		}
	}
	return list
}
