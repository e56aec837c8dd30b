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

// owner stands for this process in a folder, as long as it has temporary files
// there. All of it is done under the lock of open.
type owner struct {
	dir, id string
	held    *lockfile.Held // nil where the file system has no locks
	files   int            // in the making
	made    int            // so far
}

// ownerOf is the owner of this process's temporary files in a folder; each file
// is taken from next and ends with done.
func ownerOf(dir string) (*owner, error) {
	if o := open.owners[dir]; o != nil {
		return o, nil
	}
	o := &owner{dir: dir, id: fmt.Sprintf("%016x", rand.Uint64())}
	var err error
	// A file that cannot be locked stays, as a sign that nothing of this owner is
	// to be swept. Only who sweeps may hold the lock of a new name, for a moment.
	if o.held, err = lockfile.Take(o.lock()); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	if open.owners == nil {
		open.owners = map[string]*owner{}
	}
	open.owners[dir] = o
	return o, nil
}

// The ends of names, after Prefix and a key.
const (
	lockSuffix   = ".lock"
	commitSuffix = ".commit"
	claimSuffix  = ".claim"
)

func lockPath(dir, id string) string { return filepath.Join(dir, Prefix+id+lockSuffix) }

func (o *owner) lock() string { return lockPath(o.dir, o.id) }

// next is a temporary name.
func (o *owner) next() string {
	o.files++
	return o.name()
}

// name is a temporary name that is gone before the file that it is made for.
func (o *owner) name() string {
	o.made++
	return filepath.Join(o.dir, fmt.Sprintf("%s%s-%d", Prefix, o.id, o.made))
}

// done says that a name of next is gone.
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

// idOf is the owner's part of the name of a temporary file: "" if it has none.
func idOf(name string) string {
	rest, ok := strings.CutPrefix(name, Prefix)
	id, _, found := strings.Cut(rest, "-")
	if !ok || !found {
		return ""
	}
	return id
}
