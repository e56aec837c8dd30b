package bug

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestGroup: a panic in a goroutine reaches the goroutine that waits, with the stack
// of the first.
func TestGroup(t *testing.T) {
	cause := errors.New("index out of range")
	var g Group
	done := make(chan struct{})
	g.Go(func() { close(done) })
	g.Go(func() { <-done; breaks(cause) })
	err := func() (err error) {
		defer func() { err = fmt.Errorf("model.onnx: %w", Recovered("pass order", recover())) }()
		g.Wait()
		return nil
	}()
	var b *Error
	if !errors.As(err, &b) || !errors.Is(err, cause) || err.Error() != "model.onnx: internal error: index out of range" {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(string(b.Stack), "bug.breaks") {
		t.Errorf("the stack is %s", b.Stack)
	}
	g.Go(func() {})
	g.Wait() // the group can be used again
	if text := Recovered("pass order", "x").Error(); text != "internal error in pass order: x" {
		t.Error(text)
	}
}

//go:noinline
func breaks(err error) { panic(err) }
