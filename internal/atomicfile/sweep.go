package atomicfile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/internal/lockfile"
)

// ClaimPath is the path of a lock in a folder, for resources other than files.
// Sweep removes it when its holder has died.
func ClaimPath(dir, what string) string {
	sum := sha256.Sum256([]byte(what))
	return filepath.Join(dir, fmt.Sprintf("%s%x%s", Prefix, sum[:8], claimSuffix))
}

// swept holds the folders that this process need not sweep.
var swept struct {
	sync.Mutex
	all  bool
	dirs map[string]bool
}

// sweepOnce sweeps a folder before this process first writes to it.
func sweepOnce(dir string) {
	swept.Lock()
	defer swept.Unlock()
	if swept.all || swept.dirs[dir] {
		return
	}
	if swept.dirs == nil {
		swept.dirs = map[string]bool{}
	}
	swept.dirs[dir] = true
	Sweep(dir)
}

// Swept marks all folders as swept. A process that starts thousands of writers to
// one folder calls it in them, since each would otherwise list the folder.
func Swept() {
	swept.Lock()
	defer swept.Unlock()
	swept.all = true
}

// SweepTree is Sweep for a folder and all folders below it.
func SweepTree(root string) {
	dir := ""
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), Prefix) && filepath.Dir(path) != dir {
			dir = filepath.Dir(path)
			Sweep(dir)
		}
		return nil
	})
}

// Sweep removes the temporary files of dead processes from a folder, and
// completes their Commits. Create and Link call it before a process's first file
// in a folder. Files of living processes stay, also those of other machines on a
// network file system with locks.
func Sweep(dir string) {
	s := sweep{dir: dir, alive: map[string]bool{}}
	defer s.release()
	for _, name := range leftovers(dir) {
		path := filepath.Join(dir, name)
		switch {
		case strings.HasSuffix(name, commitSuffix):
		case strings.HasSuffix(name, claimSuffix):
			if held, err := lockfile.TryTakeOld(path); held != nil && err == nil {
				held.Release()
			}
		case strings.HasSuffix(name, lockSuffix):
			s.lives(strings.TrimSuffix(strings.TrimPrefix(name, Prefix), lockSuffix))
		default:
			if id := idOf(name); id == "" || !s.lives(id) {
				s.stale = append(s.stale, path)
			}
		}
	}
	// A dead process writes no more records. A locked record may be that of a
	// dead process, whose files are then still needed; so may one that could not
	// be completed.
	for _, name := range leftovers(dir) {
		if !strings.HasSuffix(name, commitSuffix) {
			continue
		}
		held, err := lockfile.TryTakeOld(filepath.Join(dir, name))
		switch {
		case errors.Is(err, os.ErrNotExist):
		case held == nil, settleAndRelease(held) != nil:
			return
		}
	}
	for _, path := range s.stale {
		os.Remove(path)
	}
	s.swept = true
}

// leftovers lists the files in a folder whose names begin with Prefix.
func leftovers(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), Prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// sweep is the state of sweeping one folder.
type sweep struct {
	dir   string
	alive map[string]bool  // the owner of temporary files
	locks []*lockfile.Held // those of the dead
	stale []string
	swept bool
}

// lives reports whether the owner of temporary files lives, or left a record in
// another folder that names them.
func (s *sweep) lives(id string) bool {
	if alive, known := s.alive[id]; known {
		return alive
	}
	path := lockPath(s.dir, id)
	held, err := lockfile.TryTakeOld(path)
	alive := true
	switch {
	case errors.Is(err, os.ErrNotExist):
		// The lock exists before the first temporary file and until the last is
		// gone.
		alive = false
	case held == nil:
	case standing(recordOf(path)):
		held.Close()
	default:
		alive = false
		s.locks = append(s.locks, held)
	}
	s.alive[id] = alive
	return alive
}

func standing(record string) bool {
	if record == "" {
		return false
	}
	_, err := os.Lstat(record)
	return err == nil
}

// release releases the locks of dead owners, and removes those without files.
func (s *sweep) release() {
	for _, held := range s.locks {
		if s.swept {
			held.Release()
		} else {
			held.Close()
		}
	}
}
