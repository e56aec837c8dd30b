package solvers

import "github.com/onnxmem/onnxmem/ilp"

func openSCIP() (ilp.Solver, error) { return nil, ErrMissing }
