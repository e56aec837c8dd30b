//go:build cuda

package vm

// CalledByMachine returns how many nodes of the last run gorgonia's CUDA machine called.
func (s *Session) CalledByMachine() int { return s.x.CalledByMachine() }

// Engines returns how many devices gorgonia has opened for the session.
func (s *Session) Engines() int { return s.x.Engines() }
