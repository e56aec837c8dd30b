package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// deviceTests are the test binaries of the kit, the folder of testdata-relative paths that
// each runs in, and which of its tests use the device.
var deviceTests = []struct{ name, pattern string }{
	{"gpu", "."},
	{"vm", "Device"},
}

// sanitizerTools are compute-sanitizer's, the most important first.
var sanitizerTools = []string{"memcheck", "racecheck", "initcheck", "synccheck"}

// tests runs the test binaries on the device.
func (m *measurer) tests(ctx context.Context, p *part) {
	for _, t := range deviceTests {
		if ctx.Err() != nil {
			break
		}
		s := m.suite(ctx, p, t.name, t.name, nil, t.pattern)
		m.addSuite(p, s)
	}
}

// sanitizer runs the kernels' cases under compute-sanitizer.
func (m *measurer) sanitizer(ctx context.Context, p *part) {
	tool, err := findTool("compute-sanitizer", m.work, "/usr/local/cuda/bin")
	if err != nil {
		p.Status, p.Message = absent, "compute-sanitizer is neither in the kit, on PATH, nor in /usr/local/cuda/bin, and no Python package has it"
		return
	}
	for _, name := range sanitizerTools {
		if ctx.Err() != nil {
			break
		}
		line := []string{tool, "--tool", name, "--error-exitcode", "9"}
		if name == "memcheck" {
			// Every call's status is looked at, and a kernel's parameters are counted by
			// asking for one more, which is refused.
			line = append(line, "--report-api-errors", "no")
		}
		s := m.suite(ctx, p, name+" of gpu", "gpu", line, "AgainstReference|Groups|ProductTiles|SplitProduct")
		m.addSuite(p, s)
	}
}

// findTool looks for a program in folders and on PATH.
func findTool(name string, folders ...string) (string, error) {
	for _, f := range folders {
		if path, err := exec.LookPath(filepath.Join(f, name)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
}

// suite runs a test binary, below a command if one is given. Its log is written to the
// folder of the results.
func (m *measurer) suite(ctx context.Context, p *part, name, binary string, below []string, pattern string) suite {
	s := suite{Part: p.Name, Name: name}
	folder := filepath.Join(m.work, "src", binary) // tests look for ../testdata
	if err := os.MkdirAll(folder, 0o755); err != nil {
		s.Error = err.Error()
		return s
	}
	if m.opt.Tests != "" {
		pattern = m.opt.Tests
	}
	line := append(below, filepath.Join(m.work, binary+".test"), "-test.v", "-test.run", pattern)
	began := time.Now()
	out, err := m.command(ctx, folder, line...)
	s.Seconds = time.Since(began).Seconds()
	s.Passed, s.Failed, s.Skipped = countTests(out)
	if below != nil {
		s.Faults = countFaults(out)
	}
	if err != nil {
		s.Error = err.Error()
	}
	log := "tests-" + binary + ".log"
	if below != nil {
		log = "sanitizer.log"
	}
	if f, err := os.OpenFile(filepath.Join(m.opt.Out, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
		_, err = f.Write(out)
		if err = errors.Join(err, f.Close()); err != nil && s.Error == "" {
			s.Error = err.Error()
		}
	}
	return s
}

// countTests counts the verdicts in the output of a test binary, of subtests too.
func countTests(out []byte) (passed, failed, skipped int) {
	count := func(verdict string) int { return bytes.Count(out, []byte("--- "+verdict+": ")) }
	return count("PASS"), count("FAIL"), count("SKIP")
}

// faultCount finds compute-sanitizer's summary; racecheck counts hazards, the other tools
// errors.
var faultCount = regexp.MustCompile(`(?m)^=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)`)

// countFaults returns the number in a tool's summary; nil if there is none.
func countFaults(out []byte) *int {
	f := faultCount.FindSubmatch(out)
	if f == nil {
		return nil
	}
	n, err := strconv.Atoi(string(f[1]) + string(f[2]))
	if err != nil {
		return nil
	}
	return &n
}
