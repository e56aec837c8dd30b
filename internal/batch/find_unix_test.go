package batch

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is no file is named and left out, wherever it comes from, and nobody opens
// it: a pipe without a writer would keep this test for ever.
func TestFindSkipsWhatIsNoFile(t *testing.T) {
	dir := tree(t, "a.onnx")
	pipe, socket := filepath.Join(dir, "p.onnx"), filepath.Join(dir, "s.onnx")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Skip("no named pipes: ", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip("no sockets: ", err)
	}
	defer l.Close()
	want := []string{pipe + ": is a pipe, expected a model", socket + ": is a socket, expected a model"}
	for name, in := range map[string][]string{
		"a folder":  {dir},
		"a pattern": {filepath.Join(dir, "*.onnx")},
		"a list":    {"-"},
		"names":     {filepath.Join(dir, "a.onnx"), pipe, socket},
	} {
		found, err := Find(in, strings.NewReader(filepath.Join(dir, "a.onnx")+"\n"+pipe+"\n"+socket+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(found.Models) != 1 || found.Models[0].Rel != "a.onnx" {
			t.Errorf("%s: found %v", name, found.Models)
		}
		if d := cmp.Diff(want, found.Skipped); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
