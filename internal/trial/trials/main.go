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
	keep    = flag.String("keep", "", "folder for archives of the trials that ran, with inputs and outputs")
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

// tally is what came of the trials so far.
type tally struct {
	counts  map[string]int
	classes map[string]bool // of findings that were written
	kept    *keeper
	found   bool
}

func run() (bool, error) {
	sum := &tally{counts: map[string]int{}, classes: map[string]bool{}}
	if *keep != "" {
		sum.kept = &keeper{folder: *keep}
	}
	if *file != "" {
		t, err := read(*file)
		if err == nil {
			err = sum.one(t)
		}
		return sum.found, err
	}
	for k := *first; k < *first+*number; k++ {
		t, err := trial.New(k)
		if err == nil {
			err = sum.one(t)
		}
		if err != nil {
			return sum.found, err
		}
		if n := k - *first + 1; n%1000 == 0 {
			fmt.Fprintf(os.Stderr, "%d: %v\n", n, sum.counts)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(sum.counts)) {
		fmt.Printf("%6d  %s\n", sum.counts[kind], kind)
	}
	return sum.found, sum.kept.close()
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
func (s *tally) one(t *trial.Trial) error {
	ctx := context.Background()
	began := time.Now()
	r := t.Try(ctx)
	took := time.Since(began)
	s.counts[r.Kind]++
	if *verbose || r.Finding() || took > slow {
		what := ""
		if !r.Finding() && !*verbose {
			what = "slow: "
		}
		fmt.Printf("%s%s: %s: %s: %s (%v)\n", what, t.Name, strings.Join(t.Options, " "), r.Kind, r.Says, took.Round(time.Millisecond))
	}
	if !r.Finding() {
		return s.kept.add(t, r)
	}
	s.found = true
	if *found == "" || s.classes[r.Class()] {
		return nil
	}
	s.classes[r.Class()] = true
	small := t.Shrink(ctx, r)
	says := small.Try(ctx)
	fmt.Printf("  shrunk: %s: %s: %s\n", strings.Join(small.Options, " "), says.Kind, says.Says)
	if err := os.WriteFile(filepath.Join(*found, t.Name+".onnx"), small.Model, 0o644); err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{"options": small.Options, "kind": says.Kind, "says": says.Says}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*found, t.Name+".json"), append(text, '\n'), 0o644)
}
