// Command trials plans, verifies and runs random networks with random options, and prints
// a summary. Its exit status is 1 if there is a finding.
//
//	go run ./internal/trial/trials -n 20000
//	go run ./internal/trial/trials -first 17 -n 1 -v
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/internal/trial"
)

var (
	number  = flag.Uint64("n", 1000, "number of trials")
	first   = flag.Uint64("first", 0, "number of the first trial")
	verbose = flag.Bool("v", false, "print the result of each trial")
	found   = flag.String("found", "", "folder for findings, shrunk")
	file    = flag.String("file", "", "try FILE.onnx with the options of FILE.json, and shrink it into the folder of -found")
)

func main() {
	flag.Parse()
	findings, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "trials:", err)
		os.Exit(2)
	}
	if findings {
		os.Exit(1)
	}
}

func run() (bool, error) {
	if *file != "" {
		t, err := read(*file)
		if err != nil {
			return false, err
		}
		return one(t, map[string]int{}, map[string]bool{})
	}
	counts, classes := map[string]int{}, map[string]bool{}
	any := false
	for k := *first; k < *first+*number; k++ {
		t, err := trial.New(k)
		if err != nil {
			return any, err
		}
		is, err := one(t, counts, classes)
		if err != nil {
			return any, err
		}
		any = any || is
		if n := k - *first + 1; n%1000 == 0 {
			fmt.Fprintf(os.Stderr, "%d: %v\n", n, counts)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("%6d  %s\n", counts[kind], kind)
	}
	return any, nil
}

func read(path string) (*trial.Trial, error) {
	base := strings.TrimSuffix(path, ".onnx")
	model, err := os.ReadFile(base + ".onnx")
	if err != nil {
		return nil, err
	}
	var about struct{ Options []string }
	text, err := os.ReadFile(base + ".json")
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	return &trial.Trial{Name: filepath.Base(base), Model: model, Options: about.Options}, err
}

// slow is a time after which a trial is named.
const slow = 5 * time.Second

// one tries one trial.
func one(t *trial.Trial, counts map[string]int, classes map[string]bool) (bool, error) {
	ctx := context.Background()
	began := time.Now()
	r := t.Try(ctx)
	took := time.Since(began)
	counts[r.Kind]++
	if *verbose || r.Finding() || took > slow {
		fmt.Printf("%s: %s: %s: %s (%v)\n", t.Name, strings.Join(t.Options, " "), r.Kind, r.Says, took.Round(time.Millisecond))
	}
	if !r.Finding() || *found == "" {
		return r.Finding(), nil
	}
	if class := r.Class(); classes[class] {
		return true, nil
	} else {
		classes[class] = true
	}
	small := t.Shrink(ctx, r)
	says := small.Try(ctx)
	fmt.Printf("  shrunk: %s: %s: %s\n", strings.Join(small.Options, " "), says.Kind, says.Says)
	if err := os.WriteFile(filepath.Join(*found, t.Name+".onnx"), small.Model, 0o644); err != nil {
		return true, err
	}
	text, err := json.MarshalIndent(map[string]any{"options": small.Options, "kind": says.Kind, "says": says.Says}, "", " ")
	if err != nil {
		return true, err
	}
	return true, os.WriteFile(filepath.Join(*found, t.Name+".json"), append(text, '\n'), 0o644)
}
