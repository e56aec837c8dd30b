//go:build cuda

package vm

import "gorgonia.org/gorgonia"

// CalledByMachine returns how many nodes of the last run gorgonia's CUDA machine called.
func (s *Session) CalledByMachine() int { return s.tape.outside }

// Engines returns how many devices gorgonia has opened for the session.
func (s *Session) Engines() int { return len(s.tape.machine.(gorgonia.CUDAMachine).Engines()) }
