package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

//go:embed decoder_ort.py
var decoderProgram []byte

// decoder is the network that decoder_ort.py writes.
const decoder = "decoder"

// decoders runs the products of a decoder's step with weights of 4 bits, ours beside those of ONNX
// Runtime on CUDA, whose program writes the file. Base is our step.
func (m *measurer) decoders(ctx context.Context, p *part) {
	python, err := findTool("python3")
	if err != nil {
		p.Status, p.Message = absent, "no python3 on PATH"
		return
	}
	if _, err := m.command(ctx, m.work, python, "-c", "import onnx, onnxruntime; assert 'CUDAExecutionProvider' in onnxruntime.get_available_providers()"); err != nil {
		p.Status, p.Message = absent, fmt.Sprintf("no onnx, or no ONNX Runtime with CUDA: %v", err)
		return
	}
	program, model := filepath.Join(m.work, "decoder_ort.py"), filepath.Join(m.work, decoder+".onnx")
	if err := os.WriteFile(program, decoderProgram, 0o644); err != nil {
		p.Status, p.Message = failed, err.Error()
		return
	}
	beside := &run{Network: decoder, Mode: inference, Batch: 1, What: "ONNX Runtime CUDA"}
	out, err := m.command(ctx, m.work, python, program, model, strconv.Itoa(m.opt.Steps), "CUDAExecutionProvider")
	var line torchLine
	if decoded := json.Unmarshal(out, &line); err == nil {
		err = decoded
	}
	if err != nil {
		beside.Error = err.Error()
	}
	ours := m.execute(ctx, spec{network: decoder, mode: inference, batch: 1}, "--check")
	m.add(p, ours)
	beside.Step, beside.Base = line.Seconds, ours.Step
	if line.Version != "" {
		beside.What = "ONNX Runtime " + line.Version + " CUDA"
	}
	m.add(p, beside)
}
