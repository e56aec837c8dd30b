package atomicfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/onnxmem/onnxmem/internal/lockfile"
)

// owner represents this process in a folder while it has temporary files there.
// open must be locked for all its methods.
type owner struct {
	dir, id string
	held    *lockfile.Held // nil if the file system has no locks
	files   int            // being written
	made    int            // so far
}

// ownerOf returns the owner of this process's temporary files in a folder. Each
// file begins with next and ends with done.
func ownerOf(dir string) (*owner, error) {
	if o := open.owners[dir]; o != nil {
		return o, nil
	}
	o := &owner{dir: dir, id: fmt.Sprintf("%016x", rand.Uint64())}
	var err error
	// A file that cannot be locked stays, as a sign that no file of this owner
	// may be swept. Only a sweeping process may hold the lock of a new name, for
	// a moment.
	if o.held, err = lockfile.Take(o.lock()); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	if open.owners == nil {
		open.owners = map[string]*owner{}
	}
	open.owners[dir] = o
	return o, nil
}

// Suffixes of names, after Prefix and a key.
const (
	lockSuffix   = ".lock"
	commitSuffix = ".commit"
	claimSuffix  = ".claim"
)

func lockPath(dir, id string) string { return filepath.Join(dir, Prefix+id+lockSuffix) }

func (o *owner) lock() string { return lockPath(o.dir, o.id) }

// next returns a temporary name.
func (o *owner) next() string {
	o.files++
	return o.name()
}

// name returns a temporary name that is removed before the file for which it is
// made.
func (o *owner) name() string {
	o.made++
	return filepath.Join(o.dir, fmt.Sprintf("%s%s-%d", Prefix, o.id, o.made))
}

// done reports that a name of next is no longer in use.
func (o *owner) done() {
	o.files--
	if o.files > 0 {
		return
	}
	delete(open.owners, o.dir)
	if o.held == nil {
		os.Remove(o.lock())
		return
	}
	o.held.Release()
}

// idOf is the owner's part of a temporary name; "" if it has none.
func idOf(name string) string {
	rest, ok := strings.CutPrefix(name, Prefix)
	id, _, found := strings.Cut(rest, "-")
	if !ok || !found {
		return ""
	}
	return id
}
