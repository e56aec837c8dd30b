//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is this program with another command line; the test kills it at its end.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), lineVariable+"="+strings.Join(args, "\n"), debugVariable+"=")
	t.Cleanup(func() {
		if c.Process != nil && c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c
}

// TestSignalEndsTheWork: on a signal, a command that reads its input ends at once, with
// one line, no file left, and no goroutine dump.
func TestSignalEndsTheWork(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT} {
		if signal.Ignored(sig) {
			continue // under nohup the command goes on
		}
		dir := t.TempDir()
		c := process(t, "optimize", "-", filepath.Join(dir, "out.onnx"))
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		c.Stderr = &errs
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(make([]byte, 1<<20)); err != nil { // more than a pipe holds, so the command has read some
			t.Fatal(err)
		}
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if got := c.ProcessState.ExitCode(); got != exitFailed || errs.String() != "onnxmem: stopped\n" {
			t.Errorf("%v: exit status %d, %q: expected %d and that it stopped", sig, got, &errs, exitFailed)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("%v: left %q", sig, left)
		}
	}
}

// TestSignalEndsARun: on a signal, a run with kernels on all cores ends at once, too. The
// signal is one that no shell makes its background jobs ignore.
func TestSignalEndsARun(t *testing.T) {
	dir := t.TempDir()
	model, step := filepath.Join(dir, "m.onnx"), filepath.Join(dir, "t.onnx")
	for _, line := range []string{
		"model mobilenet_v1 " + model + " --set width=0.25 --set size=32 --set classes=10",
		"optimize --train --effort fast --dim batch=2 " + model + " " + step,
	} {
		if status, errs := onCommandLine(line); status != 0 {
			t.Fatalf("%s: exit status %d: %s", line, status, errs)
		}
	}
	before, _ := filepath.Glob(filepath.Join(dir, "*"))
	c := process(t, "run", step, "--steps", "1000000", "--save", filepath.Join(dir, "saved.onnx"), "--input", "learning_rate=0")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the first step is done
		t.Fatal(err)
	}
	go io.Copy(io.Discard, out)
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_ = c.Wait()
	t.Logf("ended after %v", time.Since(began))
	said := regexp.MustCompile(`^onnxmem: .*t\.onnx: (node .*: )?stopped: interrupted\n$`)
	if got := c.ProcessState.ExitCode(); got != exitFailed || !said.MatchString(errs.String()) {
		t.Errorf("exit status %d, %q: expected %d and where it stopped", got, &errs, exitFailed)
	}
	if after, _ := filepath.Glob(filepath.Join(dir, "*")); len(after) != len(before) {
		t.Errorf("files %q, before %q", after, before)
	}
}

// TestNobodyReads: a command that writes to a pipe without a reader dies by SIGPIPE like
// other programs, silently, and leaves no partial file.
func TestNobodyReads(t *testing.T) {
	dir := t.TempDir()
	buffers := filepath.Join(dir, "buffers.csv")
	if err := os.WriteFile(buffers, []byte("id,lower,upper,size\na,0,1,8\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"pack", buffers, "--out", filepath.Join(dir, "placed.csv"), "--svg", "-"},
		{"model"},
		{"model", "mobilenet_v1", "-"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		c := process(t, args...)
		var errs bytes.Buffer
		c.Stdout, c.Stderr = w, &errs
		_ = c.Run()
		w.Close()
		if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGPIPE || errs.Len() > 0 {
			t.Errorf("%q: %v, %q: expected its end by SIGPIPE", args, c.ProcessState, &errs)
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("%q: left %v", args, left)
		}
	}
}
