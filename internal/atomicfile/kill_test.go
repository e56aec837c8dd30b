package atomicfile

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// replaces is the environment variable that makes this program replace three files
// that belong together in the folder that it names, again and again until it is
// killed, and say each time that it has.
const replaces = "ONNXMEM_TEST_REPLACES"

func TestMain(m *testing.M) {
	if dir := os.Getenv(replaces); dir != "" {
		for {
			if err := replaceAll(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Print(".")
		}
	}
	os.Exit(m.Run())
}

var three = []string{"m.onnx", "m.plan.json", "m.report.html"}

// replaceAll gives three files another text, the same to each.
func replaceAll(dir string) error {
	if err := Settle(filepath.Join(dir, three[0])); err != nil {
		return err
	}
	old, err := os.ReadFile(filepath.Join(dir, three[0]))
	if err != nil {
		return err
	}
	var files []*File
	for _, name := range three {
		p, err := Create(filepath.Join(dir, name), 0o666)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(p, "%sx", old[:len(old)%100]); err != nil {
			return err
		}
		files = append(files, p)
	}
	return Commit(false, files...)
}

// TestKills kills processes in the middle of replacing three files, two at a time of the same
// files. Whenever that is, the three are of one kind once they are settled, and nothing is
// left once they are swept.
func TestKills(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range three {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	finished := 0
	Notice = func(line string) {
		if strings.HasSuffix(line, "finished now") {
			finished++
		}
	}
	t.Cleanup(func() { Notice = nil })
	kills := 15 // of two processes each
	if n, err := strconv.Atoi(os.Getenv("ONNXMEM_KILLS")); err == nil {
		kills = n
	}
	for i := range kills {
		var running []*exec.Cmd
		for range 2 {
			c := exec.Command(exe)
			c.Env = append(os.Environ(), replaces+"="+dir)
			c.Stderr = os.Stderr
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 1+i%7)); err != nil {
				t.Fatal(err)
			}
			running = append(running, c)
		}
		for _, c := range running {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
		if i%2 == 0 {
			Sweep(dir)
		} else if err := Settle(filepath.Join(dir, three[0])); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, name := range three {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		if texts[0] != texts[1] || texts[1] != texts[2] {
			t.Fatalf("kill %d: the files hold %q", i, texts)
		}
	}
	t.Logf("%d of %d kills fell between two renames", finished, 2*kills)
	if Sweep(dir); len(folder(t, dir)) != len(three) {
		t.Errorf("left %v", folder(t, dir))
	}
}
