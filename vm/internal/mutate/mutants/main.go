// Command mutants plans and runs mutants of ONNX's operator tests and prints a
// summary. Its exit status is 1 if a mutant was neither refused nor run cleanly.
//
//	go run ./vm/internal/mutate/mutants -data FOLDER -n 1000000
//	go run ./vm/internal/mutate/mutants -data FOLDER -only test_relu#17 -v
package main

import (
	"archive/zip"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/vm/internal/mutate"
)

var (
	data    = flag.String("data", os.Getenv("ONNXMEM_DATA"), "folder of node-tests.tar.gz")
	number  = flag.Uint64("n", 50_000, "number of mutants")
	first   = flag.Uint64("first", 0, "number of the first mutant")
	only    = flag.String("only", "", "run one mutant (NAME#N), or only tests whose names contain this text")
	keep    = flag.String("keep", "", "folder for archives of the mutants that ran, with inputs and outputs")
	current = flag.String("current", "", "folder in which each worker names its current mutant, in case the process dies")
	verbose = flag.Bool("v", false, "print the changes and the result of each mutant")
)

func main() {
	flag.Parse()
	found, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if found {
		os.Exit(1)
	}
}

func run() (found bool, err error) {
	if *data == "" {
		return false, errors.New("no test data: set ONNXMEM_DATA or -data")
	}
	seeds, err := mutate.Seeds(*data)
	if err != nil {
		return false, err
	}
	name, one, single := strings.Cut(*only, "#")
	seeds = slices.DeleteFunc(seeds, func(s *mutate.Seed) bool {
		return !strings.Contains(s.Name(), name) || single && s.Name() != name
	})
	if len(seeds) == 0 {
		return false, fmt.Errorf("no test is named %q", *only)
	}
	if single {
		n, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			return false, err
		}
		return each(seeds[:1], n, n+1)
	}
	return each(seeds, *first, *first+*number)
}

// each runs the mutants first to end-1. Mutant n belongs to test n modulo the
// number of tests.
func each(seeds []*mutate.Seed, first, end uint64) (found bool, err error) {
	var next atomic.Uint64
	next.Store(first)
	workers := runtime.GOMAXPROCS(0)
	sums := make([]mutate.Summary, workers)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			var kept *zip.Writer
			if *keep != "" {
				f, err := os.Create(filepath.Join(*keep, fmt.Sprintf("%d.zip", w)))
				if err != nil {
					errs[w] = err
					return
				}
				defer f.Close()
				kept = zip.NewWriter(f)
				defer kept.Close()
			}
			for {
				n := next.Add(1) - 1
				if n >= end || errs[w] != nil {
					return
				}
				errs[w] = one(seeds[n%uint64(len(seeds))], n, w, &sums[w], kept)
			}
		})
	}
	wg.Wait()
	var sum mutate.Summary
	for w := range sums {
		sum.Merge(&sums[w])
		if errs[w] != nil {
			return false, errs[w]
		}
	}
	fmt.Print(&sum)
	return len(sum.Findings) > 0, nil
}

func one(seed *mutate.Seed, n uint64, worker int, sum *mutate.Summary, kept *zip.Writer) error {
	c, err := seed.Mutant(n)
	if err != nil {
		return err
	}
	if *current != "" {
		text := fmt.Sprintf("%s %s\n", c.Name, strings.Join(c.Edits, "; "))
		if err := os.WriteFile(filepath.Join(*current, strconv.Itoa(worker)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	r := mutate.Run(c)
	sum.Add(c, r)
	if *verbose {
		fmt.Printf("%s: %s\n\t%s: %v %s\n", c.Name, strings.Join(c.Edits, "; "), r.Stage, r.Refusal, r.Finding)
	}
	if kept != nil && r.Stage == mutate.Ran {
		return save(kept, c, r)
	}
	return nil
}

// save writes a mutant with its inputs and outputs, as TensorProtos.
func save(z *zip.Writer, c *mutate.Case, r *mutate.Result) error {
	files := map[string][]byte{"model.onnx": c.Model, "edits": []byte(strings.Join(c.Edits, "; "))}
	for name, v := range c.Inputs {
		files["input/"+name] = v.Tensor(name)
	}
	for name, v := range r.Outputs {
		files["output/"+name] = v.Tensor(name)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := z.Create(c.Name + "/" + name)
		if err != nil {
			return err
		}
		if _, err := f.Write(files[name]); err != nil {
			return err
		}
	}
	return nil
}
