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

// Notice hears, where it is set, of what Settle found to do, in a line each.
var Notice func(line string)

// record says which files a Commit puts in which places.
type record struct {
	path   string         // where it lies
	home   string         // its folder
	held   *lockfile.Held // nil where the file system has no locks
	undone bool           // the way back has failed
	Back   bool           `json:"back,omitempty"` // a file could not be put in its place
	Files  []place        `json:"files"`
}

// place is one file of a record.
type place struct {
	Dir  bytesName `json:"dir,omitempty"` // its folder; none: that of the record
	Name bytesName `json:"name"`
	Tmp  bytesName `json:"tmp"`
	Old  bytesName `json:"old,omitempty"` // a second name of what is replaced
	Was  string    `json:"was"`           // the stamp of what stood there
	New  string    `json:"new"`           // of the file that comes there
}

// bytesName is a name in JSON, where it may be any bytes: as Base64.
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

// nothing is the stamp of a place where no file is.
const nothing = "nothing"

// stamp tells a file from any that is written later: by size and time. It is
// empty where there is none to be had.
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

// key is a file's part of the names that are made of it: names may be as long as
// the file system lets them.
func key(path string) string {
	sum := sha256.Sum256([]byte(filepath.Base(path)))
	return hex.EncodeToString(sum[:8])
}

func recordPath(path string) string {
	return filepath.Join(filepath.Dir(path), Prefix+key(path)+commitSuffix)
}

// take locks the record of a Commit whose first file goes to path, and finishes
// what is left in it.
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
			// Where it cannot be finished this Commit makes it void: both are
			// about the same files.
			if err := settle(held); err != nil {
				notice("%v", err)
			}
			r.held = held
			return r
		}
		held.Release() // another user's, who was killed: void, too
	}
	return r // it cannot be removed: without a record, then
}

// release ends a Commit. A record by which something is still to be done stays.
func (r *record) release() {
	switch {
	case r.held == nil:
	case r.undone:
		r.held.Close()
	default:
		r.held.Release()
	}
}

// add adds a file. What it replaces gets a second name, where the file system can.
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
		// Who sweeps that folder does not see the record.
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

// write adds a line to the record that says how things stand. The last whole one
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

// mostRecord bounds the record that is read: that of some ten thousand files.
const mostRecord = 4 << 20

// read reads the last whole line of a record; nil if there is none.
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

// plain reports whether the record renames nothing but temporary files, and those
// within their folders.
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

// Settle finishes what a killed process has left undone with the file at path and
// those that belong to it, and waits while a living one is at it. It is to be
// called before such a file is read. It costs a look at one name where there is
// nothing to do. The error says what can be done where that cannot be finished.
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
		return nil // there is none any more, or it is none of ours
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

// Steady calls read, which reads the file at path and others that belong to it, and
// calls it again if they were replaced while it did, so that what it read last is of
// one moment. It settles them before. What is no regular file is read once.
func Steady(path string, read func() error) error {
	const most = 100 // nobody replaces a file that often while a few are opened
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
		// A Commit that began after quiet was had has a record until it has replaced
		// all, the file at path among them.
		quiet = quiet && !underWay(path)
		after, err := os.Stat(path)
		if quiet && err == nil && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()) {
			return failed
		}
	}
}

// underWay reports whether there is a record about the file at path.
func underWay(path string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	info, err := os.Lstat(recordPath(path))
	return err == nil && info.Mode().IsRegular()
}

// settle does what the record that is held says.
func settle(held *lockfile.Held) error {
	r := read(held)
	if r == nil {
		return nil // killed before the files counted
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

// forth renames what is left to rename.
func (r *record) forth(todo []place) error {
	for i := range todo {
		if err := r.rename(&todo[i], todo[i].Tmp); err != nil {
			return err
		}
	}
	return nil
}

// back puts what was replaced in its place again.
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

// replaced reports whether another file than the old one stands in its place, where
// that still has its second name: two files of a moment may have one stamp.
func (r *record) replaced(p *place) bool {
	old, errOld := os.Lstat(r.at(p, p.Old))
	now, errNow := os.Lstat(r.at(p, p.Name))
	return p.Old != "" && errOld == nil && errNow == nil && !os.SameFile(old, now)
}

// rename puts a temporary file of a record in its place.
func (r *record) rename(p *place, tmp bytesName) error {
	if err := r.allowed(p, tmp); err != nil {
		return err
	}
	if err := os.Rename(r.at(p, tmp), r.at(p, p.Name)); err != nil {
		return oserr.Reason(err)
	}
	return nil
}

// allowed reports whether this user owns the record and the file that it names,
// and, for a file of another folder, whether the lock of its owner there names the
// record in turn: else a record could be written to move files of any folder.
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

// namesRecord reports whether the lock of an owner of temporary files names a record
// that lies in another folder.
func namesRecord(lock, record string) bool {
	named := recordOf(lock)
	if named == "" {
		return false
	}
	x, errX := os.Lstat(named)
	y, errY := os.Lstat(record)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// recordOf is the record of another folder that an owner's lock names; "" if it
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

// names lists the files for messages, but for those at the end of a long list.
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
