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

// Claim claims a model among all runs that write to the folder out, so that one
// run at a time plans it and adds the entry to the journal; the last entry then
// describes the files in out. If another run has claimed the model, Claim waits
// for it, or until ctx ends, if wait is set. release is nil if the model could
// not be claimed. The claims of a run that dies end with it. If the file system
// has no locks, every claim succeeds.
func Claim(ctx context.Context, out string, m Model, wait bool) (release func(), err error) {
	// Waiting for a lock does not end with ctx, and a model takes seconds.
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
				err = inner.Err // without a name that means nothing to a user
			}
			return nil, fmt.Errorf("%s: its result cannot be locked: %w", filepath.Join(out, m.Rel), err)
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
