package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/lockfile"
)

// Claim takes hold of a model among all runs that write to the folder out: one at a
// time plans it and says so in the journal, so that its last line there is about the
// files that stand in out. Where another run has hold of it, Claim waits for that,
// or until ctx ends, if wait is set. release is nil where the model was not had.
// The claims of a run that dies end with it. Where the file system has no locks,
// every claim is had.
func Claim(ctx context.Context, out string, m Model, wait bool) (release func(), err error) {
	// A lock does not end its waiting with ctx, and models take seconds.
	const patience = 50 * time.Millisecond
	path := atomicfile.ClaimPath(out, m.Rel)
	for {
		held, err := lockfile.TryTake(path)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			os.Remove(path)
			return func() {}, nil
		case err != nil:
			var inner *os.PathError
			if errors.As(err, &inner) {
				err = inner.Err // without a name that says nothing to a user
			}
			return nil, fmt.Errorf("%s: cannot be planned there: %w", filepath.Join(out, m.Rel), err)
		case held != nil:
			return held.Release, nil
		case !wait:
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(patience):
		}
	}
}
