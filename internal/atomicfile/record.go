package atomicfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/onnxmem/onnxmem/internal/lockfile"
	"github.com/onnxmem/onnxmem/internal/oserr"
	"github.com/onnxmem/onnxmem/internal/printable"
)

// Notice, if set, is called with a line for each repair that Settle makes.
var Notice func(line string)

// record lists the files of a Commit and their paths.
type record struct {
	path   string         // path of the record
	home   string         // its folder
	held   *lockfile.Held // nil where the file system has no locks
	undone bool           // the way back has failed
	Back   bool           `json:"back,omitempty"` // a file could not be renamed
	Files  []place        `json:"files"`
}

// place is one file of a record.
type place struct {
	Dir  bytesName `json:"dir,omitempty"` // its folder; none: the folder of the record
	Name bytesName `json:"name"`
	Tmp  bytesName `json:"tmp"`
	Old  bytesName `json:"old,omitempty"` // a second name of the replaced file
	Was  string    `json:"was"`           // the stamp of the replaced file
	New  string    `json:"new"`           // the stamp of the new file
}

// bytesName is a name of arbitrary bytes, in JSON as Base64.
type bytesName string

func (n bytesName) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(n)) }

func (n *bytesName) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	*n = bytesName(b)
	return err
}

func (r *record) at(p *place, name bytesName) string {
	if p.Dir != "" {
		return filepath.Join(string(p.Dir), string(name))
	}
	return filepath.Join(r.home, string(name))
}

// nothing is the stamp of a path without a file.
const nothing = "nothing"

// stamp distinguishes a file from any written later, by size and time. It is
// empty if these are not available.
func stamp(path string) string {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nothing
	case err != nil:
		return ""
	case !info.Mode().IsRegular():
		return info.Mode().Type().String()
	}
	return fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano())
}

// key is the part of a record's name that depends on the path of a file, which
// may be too long for a name.
func key(path string) string {
	sum := sha256.Sum256([]byte(filepath.Base(path)))
	return hex.EncodeToString(sum[:8])
}

func recordPath(path string) string {
	return filepath.Join(filepath.Dir(path), Prefix+key(path)+commitSuffix)
}

// take locks the record of a Commit whose first file goes to path, and completes
// an earlier Commit that left it.
func take(path string) *record {
	r := &record{path: recordPath(path), home: filepath.Dir(path)}
	for range 2 {
		held, err := lockfile.Take(r.path)
		if errors.Is(err, errors.ErrUnsupported) {
			os.Remove(r.path)
		}
		if err != nil {
			return r
		}
		if info, err := held.Stat(); err == nil && mine(info) {
			// If it cannot be completed, this Commit makes it void: both concern
			// the same files.
			if err := settle(held); err != nil {
				notice("%v", err)
			}
			r.held = held
			return r
		}
		held.Release() // another user's, who was killed: void, too
	}
	return r // it cannot be removed, so there is no record
}

// release ends a Commit. A record of unfinished work stays.
func (r *record) release() {
	switch {
	case r.held == nil:
	case r.undone:
		r.held.Close()
	default:
		r.held.Release()
	}
}

// add adds a file. A replaced file gets a second name, if the file system
// supports that.
func (r *record) add(p *File) {
	dir, name := filepath.Split(p.path)
	e := place{Name: bytesName(name), Tmp: bytesName(filepath.Base(p.tmp)), Was: stamp(p.path), New: stamp(p.tmp)}
	if !sameFolder(dir, r.home) {
		if abs, err := filepath.Abs(filepath.Dir(p.path)); err == nil {
			e.Dir = bytesName(abs)
		}
	}
	if e.Was != nothing {
		if old := p.owner.name(); os.Link(p.path, old) == nil {
			e.Old = bytesName(filepath.Base(old))
		}
	}
	if e.Dir != "" && r.held != nil && p.owner.held != nil {
		// A process that sweeps that folder does not see the record.
		if abs, err := filepath.Abs(r.path); err == nil && p.owner.held.Truncate(0) == nil {
			_, _ = p.owner.held.WriteAt([]byte(abs), 0)
		}
	}
	r.Files = append(r.Files, e)
}

func sameFolder(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, errX := os.Stat(filepath.Clean(a))
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// write adds a line with the present state to the record. The last complete line
// counts.
func (r *record) write(back, sync bool) error {
	r.Back = back
	if r.held == nil {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if !back {
		if err := r.held.Truncate(0); err != nil {
			return err
		}
	}
	if _, err := r.held.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(r.held, "%x %s\n", sha256.Sum256(text), text); err != nil {
		return err
	}
	if sync {
		return r.held.Sync()
	}
	return nil
}

// mostRecord is the largest record that is read: that of some ten thousand files.
const mostRecord = 4 << 20

// read reads the last complete line of a record; nil if there is none.
func read(held *lockfile.Held) *record {
	text, err := io.ReadAll(io.NewSectionReader(held, 0, mostRecord))
	if err != nil {
		return nil
	}
	var last *record
	for line := range bytes.Lines(text) {
		sum, body, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if !ok || !bytes.HasSuffix(line, []byte("\n")) || string(sum) != fmt.Sprintf("%x", sha256.Sum256(body)) {
			break
		}
		r := &record{path: held.Name(), home: filepath.Dir(held.Name())}
		if json.Unmarshal(body, r) != nil || !r.plain() {
			break
		}
		last = r
	}
	return last
}

// plain reports whether the record renames only temporary files, within their
// folders.
func (r *record) plain() bool {
	is := func(name bytesName) bool {
		n := string(name)
		return filepath.Base(n) == n && filepath.IsLocal(n) && n != "."
	}
	for i := range r.Files {
		p := &r.Files[i]
		temporary := is(p.Tmp) && idOf(string(p.Tmp)) != "" && (p.Old == "" || is(p.Old) && idOf(string(p.Old)) != "")
		if !temporary || !is(p.Name) || p.Dir != "" && !filepath.IsAbs(string(p.Dir)) {
			return false
		}
	}
	return len(r.Files) > 0
}

// Settle completes the Commit of a killed process that includes the file at path,
// and waits while a living process is committing. Call it before reading such a
// file. If there is nothing to do, it only looks up one name. If the Commit
// cannot be completed, the error says what to do.
func Settle(path string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	name := recordPath(path)
	if _, err := os.Lstat(name); err != nil {
		return nil
	}
	held, err := lockfile.TakeOld(name)
	if err != nil {
		return nil // it is gone, or belongs to another user
	}
	return settleAndRelease(held)
}

// settleAndRelease removes the record if it is finished.
func settleAndRelease(held *lockfile.Held) error {
	if err := settle(held); err != nil {
		held.Close()
		return err
	}
	held.Release()
	return nil
}

// Steady calls read, which reads the file at path and its companions, again if
// they were replaced meanwhile, so that the last call read files of one moment.
// It settles them first. A file that is not regular is read once.
func Steady(path string, read func() error) error {
	const most = 100 // nobody replaces a file this often while a few are opened
	for n := 1; ; n++ {
		if err := Settle(path); err != nil {
			return err
		}
		before, err := os.Stat(path)
		quiet := !underWay(path)
		failed := read()
		if err != nil || !before.Mode().IsRegular() || n == most {
			return failed
		}
		// A Commit that began after quiet was set has a record until it has
		// replaced all files, including the one at path.
		quiet = quiet && !underWay(path)
		after, err := os.Stat(path)
		if quiet && err == nil && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()) {
			return failed
		}
	}
}

// underWay reports whether a record for the file at path exists.
func underWay(path string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	info, err := os.Lstat(recordPath(path))
	return err == nil && info.Mode().IsRegular()
}

// settle carries out the record, which is locked.
func settle(held *lockfile.Held) error {
	r := read(held)
	if r == nil {
		return nil // killed before the new files counted
	}
	cannot := func(err error) error {
		return fmt.Errorf("%s: an earlier run was killed while it replaced them, which cannot be finished: %w", r.names(), err)
	}
	if r.Back {
		if err := r.back(); err != nil {
			return cannot(err)
		}
		notice("%s: an earlier run could not replace them all, and was killed while it took that back: that is finished now", r.names())
		return nil
	}
	done, changed := 0, ""
	todo := r.Files[:0:0]
	for i := range r.Files {
		p := r.Files[i]
		switch now, tmp := stamp(r.at(&p, p.Name)), stamp(r.at(&p, p.Tmp)); {
		case tmp == p.New && (now == p.Was || now == p.New):
			todo = append(todo, p)
		case now == p.New:
			done++
		default:
			changed = string(p.Name)
		}
	}
	switch {
	case changed != "" && done == 0:
		notice("%s: an earlier run was killed before it had replaced them, and %s, or what was to come there, has changed since: they stay as they are", r.names(), printable.Text(changed))
	case changed != "":
		notice("%s: an earlier run was killed while it replaced them, and %s, or what was to come there, has changed since: they may not belong together", r.names(), printable.Text(changed))
	case len(todo) > 0:
		if err := r.forth(todo); err != nil {
			return cannot(err)
		}
		notice("%s: an earlier run was killed while it replaced them: that is finished now", r.names())
	}
	r.removeOld()
	return nil
}

// forth renames the remaining files.
func (r *record) forth(todo []place) error {
	for i := range todo {
		if err := r.rename(&todo[i], todo[i].Tmp); err != nil {
			return err
		}
	}
	return nil
}

// back restores the replaced files.
func (r *record) back() error {
	var failed []error
	for i := range r.Files {
		p := &r.Files[i]
		name := r.at(p, p.Name)
		var err error
		switch now := stamp(name); {
		case now == p.Was && !r.replaced(p):
		case now != p.New:
			// Somebody has changed it since.
		case p.Was == nothing:
			if err = r.allowed(p, p.Name); err == nil {
				err = os.Remove(name)
			}
		case p.Old == "":
			err = errors.New("is replaced already, and the file system keeps no second name of what was there")
		default:
			err = r.rename(p, p.Old)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, oserr.Reason(err)))
		}
	}
	if len(failed) == 0 {
		r.removeOld()
	}
	return errors.Join(failed...)
}

// replaced reports whether a file other than the old one is at the path, if the
// old one still has its second name: two files of one moment may have equal
// stamps.
func (r *record) replaced(p *place) bool {
	old, errOld := os.Lstat(r.at(p, p.Old))
	now, errNow := os.Lstat(r.at(p, p.Name))
	return p.Old != "" && errOld == nil && errNow == nil && !os.SameFile(old, now)
}

// rename renames a temporary file of a record to its path.
func (r *record) rename(p *place, tmp bytesName) error {
	if err := r.allowed(p, tmp); err != nil {
		return err
	}
	if err := os.Rename(r.at(p, tmp), r.at(p, p.Name)); err != nil {
		return oserr.Reason(err)
	}
	return nil
}

// allowed reports whether this user owns the record and the file that it names
// and, for a file of another folder, whether the lock of its owner there names
// the record. Otherwise a record could move files of any folder.
func (r *record) allowed(p *place, name bytesName) error {
	for _, path := range []string{r.path, r.at(p, name)} {
		info, err := os.Lstat(path)
		if err != nil {
			return oserr.Reason(err)
		}
		if !mine(info) {
			return errors.New("it was another user's: expected that user to call any command on it")
		}
	}
	if p.Dir == "" {
		return nil
	}
	lock := lockPath(string(p.Dir), idOf(string(p.Tmp)))
	info, err := os.Lstat(lock)
	if err != nil || !info.Mode().IsRegular() || !mine(info) || !namesRecord(lock, r.path) {
		return fmt.Errorf("it is not known there: expected %s to name it", printable.Text(lock))
	}
	return nil
}

// namesRecord reports whether the lock of an owner of temporary files names a
// record in another folder.
func namesRecord(lock, record string) bool {
	named := recordOf(lock)
	if named == "" {
		return false
	}
	x, errX := os.Lstat(named)
	y, errY := os.Lstat(record)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// recordOf is the record in another folder that an owner's lock names; "" if it
// names none.
func recordOf(lock string) string {
	const longest = 1 << 16
	f, err := os.Open(lock)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		return ""
	}
	return string(text)
}

// removeOld removes the second names.
func (r *record) removeOld() {
	for i := range r.Files {
		if p := &r.Files[i]; p.Old != "" {
			os.Remove(r.at(p, p.Old))
		}
	}
}

// names lists the files for messages; a long list is cut.
func (r *record) names() string {
	const most = 4
	var list []string
	for i := range r.Files {
		if i == most {
			list = append(list, fmt.Sprintf("%d more", len(r.Files)-most))
			break
		}
		list = append(list, printable.Text(r.at(&r.Files[i], r.Files[i].Name)))
	}
	return strings.Join(list, ", ")
}

func notice(format string, args ...any) {
	if Notice != nil {
		Notice(fmt.Sprintf(format, args...))
	}
}
