package proof

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/internal/units"
)

// Claim is a figure that a checker of others is to confirm.
type Claim struct {
	Name  string // of its files, behind that of the model: "order", "placement"
	Says  string // what is claimed, for a reader
	Bytes int64

	// Of an order: the formula, and an order whose load is the upper end.
	Problem *model.Problem
	Formula *model.Formula
	Order   []int32
	Node    func(i int32) string // names for the reader
	Tensor  func(i int32) string
	Poll    func() // called now and then: it ends the work by a panic; nil: nothing does

	// Of extra time, in nanoseconds: what may run again, and a plan.
	Again  *model.Again
	Firsts []int32 // nodes whose first run may prove it
	Steps  []int   // nodes as they run

	Traffic *Traffic // of traffic

	// Of a placement: the buffers that are live at one step.
	Live []Live

	Refused string // why there is no proof; all but Name and Bytes may then be missing
}

// Live is a buffer that is live at a step.
type Live struct {
	Name  string
	Bytes int64
}

// Result is a claim that was written, or why it was not. Files have paths below the folder.
type Result struct {
	Claim        string  `json:"claim"`
	Bytes        int64   `json:"bytes,omitempty"`       // proven: the least value is at least that
	Upper        int64   `json:"upper_bytes,omitempty"` // and at most that
	Time         int64   `json:"ns,omitempty"`          // of extra time, in place of the two
	UpperTime    int64   `json:"upper_ns,omitempty"`
	Formula      string  `json:"formula,omitempty"`
	FormulaBytes int64   `json:"formula_bytes,omitempty"`
	Proof        string  `json:"proof,omitempty"`
	ProofBytes   int64   `json:"proof_bytes,omitempty"`
	Milliseconds float64 `json:"ms,omitempty"`
	Refused      string  `json:"refused,omitempty"` // all but Claim is then missing
}

// String says where the proof is, or why there is none.
func (r Result) String() string {
	if r.Refused != "" {
		return "none: " + printable.Line(r.Refused)
	}
	least := units.Bytes(r.Bytes)
	if r.Time > 0 {
		least = units.Group(r.Time) + " ns of extra time"
	}
	return fmt.Sprintf("at least %s: %s (%s), %s (%s), written in %.1f ms", least, r.Formula, units.Bytes(r.FormulaBytes), r.Proof, units.Bytes(r.ProofBytes), r.Milliseconds)
}

// Folder writes the claims to a folder, which it makes if need be, all or none of the files.
// Beside them stands NAME.proofs.md with what they say. Files that an earlier one names, and that
// are not written again, are removed. A claim whose proof fails has the reason in Refused; the
// error is that of a file.
func Folder(dir, name string, claims []Claim) (list []Result, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var files []*atomicfile.File
	defer func() {
		for _, f := range files {
			f.Abort()
		}
	}()
	create := func(base string) (*atomicfile.File, error) {
		f, err := atomicfile.Create(filepath.Join(dir, base), 0o666)
		if err == nil {
			files = append(files, f)
		}
		return f, err
	}
	for i := range claims {
		c := &claims[i]
		c.Says = printable.Line(c.Says)
		r := Result{Claim: c.Name, Bytes: c.Bytes}
		if c.Refused != "" {
			list = append(list, Result{Claim: c.Name, Refused: c.Refused})
			continue
		}
		began := time.Now()
		opb, pbp := &strings.Builder{}, &strings.Builder{}
		if r.Upper, err = c.Write(opb, pbp); err != nil {
			list = append(list, Result{Claim: c.Name, Refused: err.Error()})
			continue
		}
		if c.Again != nil {
			r.Bytes, r.Upper, r.Time, r.UpperTime = 0, 0, r.Bytes, r.Upper
		}
		r.Formula, r.Proof = name+"."+c.Name+".opb", name+"."+c.Name+".pbp"
		r.FormulaBytes, r.ProofBytes = int64(opb.Len()), int64(pbp.Len())
		for _, x := range []struct{ base, text string }{{r.Formula, opb.String()}, {r.Proof, pbp.String()}} {
			f, err := create(x.base)
			if err != nil {
				return nil, err
			}
			if _, err := f.WriteString(x.text); err != nil {
				return nil, err
			}
		}
		r.Milliseconds = float64(time.Since(began).Microseconds()) / 1000
		list = append(list, r)
	}
	about := name + ".proofs.md"
	old := earlier(filepath.Join(dir, about), name)
	f, err := create(about)
	if err != nil {
		return nil, err
	}
	if err := readme(f, claims, list); err != nil {
		return nil, err
	}
	if err := atomicfile.Commit(false, files...); err != nil {
		return nil, err
	}
	for _, base := range old {
		if !slices.ContainsFunc(list, func(r Result) bool { return r.Formula == base || r.Proof == base }) {
			if err := os.Remove(filepath.Join(dir, base)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return list, nil
}

// earlier returns the files of which the page of an earlier run says how to check them.
func earlier(page, name string) (list []string) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil // there is none
	}
	for line := range strings.Lines(string(text)) {
		rest, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "veripb "+name+".")
		formula, proof, two := strings.Cut(rest, ".opb "+name+".")
		if is && two && proof == formula+".pbp" && !strings.ContainsAny(formula, `/\`) {
			list = append(list, name+"."+formula+".opb", name+"."+proof)
		}
	}
	return list
}

// Write writes the formula and the proof of a claim, and returns the upper end of what it proves.
func (c *Claim) Write(opb, pbp io.Writer) (upper int64, err error) {
	if c.Traffic != nil {
		return c.writeTraffic(opb, pbp)
	}
	if c.Problem == nil {
		return c.Bytes, c.writeLive(opb, pbp)
	}
	if c.Again != nil {
		return c.writeAgain(opb, pbp)
	}
	if c.Formula == nil {
		if err := c.search(); err != nil {
			return 0, err
		}
	}
	fmt.Fprintf(opb, "* %s\n", c.Says)
	for v := range c.Problem.Before {
		fmt.Fprintf(opb, "* x%d: node %s has run\n", v, c.Node(int32(v)))
	}
	for i, x := range c.Problem.Tensors {
		if x.Bytes > 0 {
			fmt.Fprintf(opb, "* t%d: the %d bytes of %s count\n", i, x.Bytes, c.Tensor(int32(i)))
		}
	}
	return write(opb, pbp, c.Formula, c.Bytes, solution(c.Problem, c.Formula, c.Order), (*refuter).refute, c.Poll)
}

// writeLive writes that buffers that are live at one step take at least their sum.
func (c *Claim) writeLive(opb, pbp io.Writer) error {
	f := &model.Formula{}
	fmt.Fprintf(opb, "* %s\n", c.Says)
	for i, b := range c.Live {
		fmt.Fprintf(opb, "* b%d: buffer %q, %d bytes, is live\n", i, b.Name, b.Bytes)
		f.Names = append(f.Names, fmt.Sprintf("b%d", i))
		f.Rows = append(f.Rows, model.Row{Lits: []model.Lit{model.Lit(2 * i)}, Least: 1})
		f.Costs = append(f.Costs, model.Cost{Lit: model.Lit(2 * i), Bytes: b.Bytes})
	}
	if err := f.Write(opb); err != nil {
		return err
	}
	w := bufio.NewWriter(pbp)
	fmt.Fprintf(w, "pseudo-Boolean proof version 3.0\nf %d ;\n", len(f.Rows))
	r := &refuter{known: &known{f: f}, w: w, id: int64(len(f.Rows))}
	var s sum
	for i, b := range c.Live {
		s = append(s, term{id: int64(i) + 1, times: b.Bytes})
	}
	id := r.derive(s, asItIs)
	fmt.Fprintf(w, "output NONE ;\nconclusion BOUNDS %d : %d %d :", c.Bytes, id, c.Bytes)
	for i := range c.Live {
		fmt.Fprintf(w, " b%d", i)
	}
	w.WriteString(" ;\nend pseudo-Boolean proof ;\n")
	return w.Flush()
}

//go:embed readme.md
var about string

// readme writes what the files of a folder say, and how to check them.
func readme(w io.Writer, claims []Claim, list []Result) error {
	var b strings.Builder
	b.WriteString("# Proofs\n\n")
	for i, r := range list {
		if r.Refused != "" {
			fmt.Fprintf(&b, "- %s: no proof: %s\n", r.Claim, printable.Line(r.Refused))
			continue
		}
		least, most, unit := r.Bytes, r.Upper, "bytes"
		if r.Time > 0 {
			least, most, unit = r.Time, r.UpperTime, "ns"
		}
		fmt.Fprintf(&b, "- `%s`, `%s`: %s The proof says at least %d %s, and at most %d.\n", r.Formula, r.Proof, claims[i].Says, least, unit, most)
	}
	b.WriteString("\n```\n")
	for _, r := range list {
		if r.Refused == "" {
			fmt.Fprintf(&b, "veripb %s %s\n", r.Formula, r.Proof)
		}
	}
	b.WriteString("```\n\n" + about)
	_, err := io.WriteString(w, b.String())
	return err
}
