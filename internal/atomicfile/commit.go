package atomicfile

import (
	"errors"
	"os"
	"slices"
)

// Commit renames the file to its path. It is flushed to the disk before that if
// it replaces another file, or if sync is set.
func (p *File) Commit(sync bool) error { return Commit(sync, p) }

// Commit renames files to their paths, in order: all of them, or none if one
// cannot be renamed. Slow steps that may fail are done before the first rename.
// After a kill, [Settle] must be called for the first file.
func Commit(sync bool, files ...*File) (err error) {
	defer func() {
		if err != nil {
			for _, p := range files {
				p.Abort()
			}
		}
	}()
	sync = sync || slices.ContainsFunc(files, func(p *File) bool { return p.replaces })
	for _, p := range files {
		if err := p.finish(sync); err != nil {
			return p.named(err)
		}
	}
	files = slices.DeleteFunc(slices.Clone(files), func(p *File) bool { return p.owner == nil })
	switch len(files) {
	case 0:
		return nil
	case 1:
		open.Lock()
		defer open.Unlock()
		return files[0].place()
	}
	r := take(files[0].path)
	defer r.release()
	open.Lock()
	defer open.Unlock()
	return r.commit(sync, files)
}

// place renames the file. open must be locked.
func (p *File) place() error {
	if !open.files[p] {
		return p.named(os.ErrClosed) // aborted meanwhile
	}
	if err := os.Rename(p.tmp, p.path); err != nil {
		return p.named(err)
	}
	p.forget()
	return nil
}

// commit is steps 3 and 4 of the package comment. open must be locked.
func (r *record) commit(sync bool, files []*File) error {
	for _, p := range files {
		if !open.files[p] {
			return p.named(os.ErrClosed)
		}
		r.add(p)
	}
	if err := r.write(false, sync); err != nil {
		r.removeOld()
		return files[0].named(err)
	}
	for _, p := range files {
		// No file is forgotten before all have been renamed: until then the
		// owner's lock keeps other processes from sweeping files that the record
		// names.
		err := os.Rename(p.tmp, p.path)
		if err == nil {
			continue
		}
		err = p.named(err)
		// Without that line, a kill on the way back would make Settle go forward,
		// which is impossible.
		failed := r.write(true, sync)
		if failed == nil {
			failed = r.back()
		}
		r.undone = failed != nil
		return errors.Join(err, failed)
	}
	r.removeOld()
	for _, p := range files {
		p.forget()
	}
	return nil
}
