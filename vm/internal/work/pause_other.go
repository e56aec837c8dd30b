//go:build !amd64

package work

// pause waits a moment.
func pause() {}
