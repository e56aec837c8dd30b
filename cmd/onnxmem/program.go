package main

import (
	"compress/gzip"
	"io"
	"strings"
)

// programFlags are the files that put a problem before solvers.
type programFlags struct {
	LP       string   `group:"program" name:"lp" out:"the integer program" placeholder:"FILE" help:"The integer program of the paper OLLA. A solver can check the optimum by it, in CPLEX's LP format; for small problems. It is gzipped if FILE ends in .gz, as are the next three."`
	MPS      string   `group:"program" name:"mps" out:"the integer program as MPS" placeholder:"FILE" help:"Write the integer program in free MPS format."`
	CPSAT    string   `group:"program" name:"cp-sat" out:"the integer program for CP-SAT" placeholder:"FILE" help:"The same for CP-SAT, with the result as hint. It is a CpModelProto of OR-tools."`
	MiniZinc string   `group:"program" name:"minizinc" out:"the MiniZinc model" placeholder:"FILE" help:"The problem as a MiniZinc model. It has nothing of the integer program."`
	ILP      []string `group:"program" seldom:"" name:"ilp" placeholder:"NAME,..." help:"Change the integer program by names that docs/formats/solvers.md lists (an unknown one lists them, too)."`
}

// programFile is one of the files, and what goes there.
type programFile struct {
	path string
	text func(io.Writer) error
}

// integer reports whether the integer program is asked for.
func (f *programFlags) integer() bool { return f.LP != "" || f.MPS != "" || f.CPSAT != "" }

// paths lists the files by their flags.
func (f *programFlags) paths() []string { return []string{f.LP, f.MPS, f.CPSAT, f.MiniZinc} }

// check returns an error if two files, or one and another output, go to standard output.
func (f *programFlags) check(other ...string) error {
	onStandardOutput := 0
	for _, path := range append(f.paths(), other...) {
		if path == "-" {
			onStandardOutput++
		}
	}
	switch {
	case onStandardOutput > 1:
		return usagef("%d files: expected at most one of them on standard output", onStandardOutput)
	case len(f.ILP) > 0 && !f.integer():
		return usagef("--ilp: expected a file with --lp, --mps or --cp-sat")
	}
	return nil
}

// files lists the files with what goes there, packed if the name says so.
func (f *programFlags) files(lp, mps, cpsat, minizinc func(io.Writer) error) (list []programFile) {
	for i, text := range []func(io.Writer) error{lp, mps, cpsat, minizinc} {
		path := f.paths()[i]
		if strings.HasSuffix(path, ".gz") {
			plain := text
			text = func(w io.Writer) error {
				z := gzip.NewWriter(w)
				if err := plain(z); err != nil {
					return err
				}
				return z.Close()
			}
		}
		list = append(list, programFile{path, text})
	}
	return list
}

// unknownSwitch returns a usage error that lists the names.
func unknownSwitch(name string, names []string) error {
	return usagef("--ilp: %q is unknown: expected some of %s", name, strings.Join(names, ", "))
}
