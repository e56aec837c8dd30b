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

// ClaimPath is the name of a lock in a folder for what concerns neither of its
// files alone; Sweep removes it once its holder has died.
func ClaimPath(dir, what string) string {
	sum := sha256.Sum256([]byte(what))
	return filepath.Join(dir, fmt.Sprintf("%s%x%s", Prefix, sum[:8], claimSuffix))
}

// swept is the folders that need no sweeping by this process.
var swept struct {
	sync.Mutex
	all  bool
	dirs map[string]bool
}

// sweepOnce sweeps a folder before this process writes to it for the first time.
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

// Swept says that all folders are swept: by who started this process, one of
// thousands that write to the same folder, each of which would list it.
func Swept() {
	swept.Lock()
	defer swept.Unlock()
	swept.all = true
}

// SweepTree is Sweep for a folder and all below it.
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

// Sweep takes away what processes that have died left in a folder, and finishes
// what they had begun to put in place. Create and Link do so before the first file
// that a process makes in a folder. Whatever belongs to a living process, of
// this machine or, on a network file system with locks, of another, stays.
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
	// A dead process writes no more records. While another process holds a record, it
	// may complete that of a dead process, which needs the stale files; the same holds
	// for a record that cannot be completed.
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

// leftovers lists the files in a folder that are ours by their names.
func leftovers(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), Prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// sweep is the sweeping of one folder.
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
		// The lock is there before the first temporary file and until the last is
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

// release gives the locks of the dead back, and removes them if nothing of theirs
// is left.
func (s *sweep) release() {
	for _, held := range s.locks {
		if s.swept {
			held.Release()
		} else {
			held.Close()
		}
	}
}
