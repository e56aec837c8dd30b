package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestSet(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"a", "b"} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a/model", "b/other"} { // of one size
		if err := os.WriteFile(name, []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"c": "a", "link": "a/model", "nowhere": "a/new"} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip(err)
		}
	}
	if err := os.Link("a/model", "hard"); err != nil {
		t.Skip(err)
	}
	abs, err := filepath.Abs("a/model")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		add  func(s *Set)
		want string // of the error; "": none
	}{
		{"two files", func(s *Set) { s.Reads("the model", "a/model"); s.Writes("the plan", "b/other") }, ""},
		{
			"an input", func(s *Set) { s.Reads("the model", "a/model"); s.Writes("the plan", "a/../a/model") },
			"a/../a/model: it is the model: expected another place for the plan",
		},
		{
			"an absolute path", func(s *Set) { s.Reads("the model", "a/model"); s.Writes("the plan", abs) },
			abs + " (the same file as a/model): it is the model: expected another place for the plan",
		},
		{
			"a link", func(s *Set) { s.Reads("the model", "a/model"); s.Writes("the plan", "link") },
			"link (the same file as a/model): it is the model: expected another place for the plan",
		},
		{
			"a hard link, read afterwards", func(s *Set) { s.Writes("the plan", "hard"); s.Reads("the model", "a/model") },
			"hard (the same file as a/model): it is the model: expected another place for the plan",
		},
		{
			"a folder by another name", func(s *Set) { s.Writes("the plan", "a/new"); s.Writes("the report", "c/new") },
			"c/new (the same file as a/new): the plan goes there: expected another place for the report",
		},
		{"a link to nowhere is replaced itself", func(s *Set) { s.Writes("the plan", "a/new"); s.Writes("the report", "nowhere") }, ""},
		{
			"a folder that is not there", func(s *Set) { s.Writes("the plan", "d/new"); s.Writes("the report", "./d/new") },
			"./d/new: the plan goes there: expected another place for the report",
		},
		{"in the place of the model", func(s *Set) { s.Reads("the model", "link"); s.Writes("the plan", "hard", "the model") }, ""},
		{
			"in the place of another", func(s *Set) { s.Reads("the costs", "link"); s.Writes("the plan", "hard", "the model") },
			"hard (the same file as link): it is the costs: expected another place for the plan",
		},
		{"the same thing twice", func(s *Set) { s.Writes("the plan", "a/new"); s.Writes("the plan", "a/new") }, ""},
		{"one file read twice", func(s *Set) { s.Reads("the model", "link"); s.Reads("the costs", "hard") }, ""},
		{"standard streams", func(s *Set) { s.Reads("the model", "-"); s.Writes("the plan", "-"); s.Writes("the report", "") }, ""},
		{"folders", func(s *Set) { s.Reads("the models", "a"); s.Writes("the plan", "c") }, ""},
		{
			"a path that steers the terminal", func(s *Set) { s.Writes("the plan", "d\x1b[2J"); s.Writes("the report", "d\x1b[2J") },
			`d\x1b[2J: the plan goes there: expected another place for the report`,
		},
	} {
		var s Set
		c.add(&s)
		got := ""
		if err := s.Err(); err != nil {
			if got = err.Error(); !errors.As(err, new(*Conflict)) {
				t.Errorf("%s: expected a *Conflict, found %T", c.name, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if !Same("link", "hard") || Same("link", "b/other") || Same("a/new", "link") || !Same("c/new", "a/new") || Same("a", "c") {
		t.Error("Same")
	}
}
