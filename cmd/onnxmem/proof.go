package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// proofName is how the names of a file's proofs begin.
func proofName(file string) string {
	if file == "-" || file == "standard input" {
		return "stdin"
	}
	name := filepath.Base(file)
	for _, ext := range []string{".gz", ".onnx", ".json", ".csv"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// proven returns a failure if a proof that was asked for could not be written. The report has
// the reason.
func proven[P proof.Result | verify.Proof](list []P) error {
	if slices.ContainsFunc(list, func(r P) bool { return proof.Result(r).Refused != "" }) {
		return &failure{status: exitFailed}
	}
	return nil
}

// proofsText prints what became of proofs, behind a first column of some width.
func proofsText(w io.Writer, width int, list []proof.Result) {
	for _, r := range list {
		fmt.Fprintf(w, "%-*s%s\n", width, "proof", r)
	}
}

// proof is the claim that no placement of the buffers takes less than the lower bound: those
// that are live at one step take as much.
func (k *packing) proof() proof.Claim {
	type area struct {
		first, last int
		bytes       int64
		name        string
	}
	var areas []area
	change := map[int]int64{} // of the load, by step
	for i := range k.problem.Buffers {
		name := k.problem.Buffers[i].ID
		if name == "" {
			name = fmt.Sprint(i)
		}
		k.problem.EachArea(i, func(first, last int, from, to int64) {
			areas = append(areas, area{first, last, to - from, name})
			change[first] += to - from
			change[last+1] -= to - from
		})
	}
	step, load, most := 0, int64(0), int64(-1)
	for _, at := range slices.Sorted(maps.Keys(change)) {
		if load += change[at]; load > most {
			step, most = at, load
		}
	}
	var live []proof.Live
	for _, a := range areas {
		if a.first <= step && step <= a.last && a.bytes > 0 {
			live = append(live, proof.Live{Name: a.name, Bytes: a.bytes})
		}
	}
	return proof.PlacementOf(live, step, k.found.LowerBound)
}
