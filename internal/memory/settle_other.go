//go:build !linux

package memory

// releaseProgram does nothing: the system takes such pages back by itself.
func releaseProgram() {}
