package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostileNames replaces the names of a built-in network's tensors, nodes and dimensions:
// colours, a cleared screen, C1 controls, the direction of writing, line ends of all
// kinds.
var hostileNames = strings.NewReplacer(
	"logits", "\x1b\u202e\n\x7f",
	"image", "\u009b\u2028",
	"batch", "\u202eA\n",
	"conv", "\x07\r\x1b[",
)

// TestNamesSteerNoTerminal: names from models, plans, arrays and disks never move the
// cursor and never begin a line.
func TestNamesSteerNoTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	if status, errs := onCommandLine("model mobilenet_v1 plain.onnx --set width=0.25 --set size=32 --set classes=10"); status != 0 {
		t.Fatal(errs)
	}
	plain, err := os.ReadFile("plain.onnx")
	if err != nil {
		t.Fatal(err)
	}
	var npz bytes.Buffer
	z := zip.NewWriter(&npz)
	if _, err := z.Create("\x1b[2J\n.npy"); err != nil {
		t.Fatal(err)
	}
	z.Close()
	long := strings.Repeat("long ", 2000)
	for name, text := range map[string]string{
		"m.onnx":       hostileNames.Replace(string(plain)),
		"bad.csv":      "id,lower,upper,size\n\x1b[2J,0,1,x\x1b\n",
		"head.csv":     "id,lower,upper,size,\x1b[2J\n",
		"good.csv":     "id,lower,upper,size\n\x1b[2J" + strings.Repeat("n", 300) + ",0,1,8\n",
		"bad.json":     `{"nodes": [{"name": "\u001b[2J\n", "workspace": -1}], "tensors": []}`,
		"type.json":    `{"nodes": [{"name": 5}], "tensors": ["` + "\u009b" + `"]}`,
		"good.json":    `{"name": "\u001b[2J\n", "nodes": [{"name": "\u001b[2J\n", "op": "\r"}], "tensors": [{"name": "\u202e", "bytes": 1, "producer": 0}]}`,
		"cycle.json":   `{"nodes": [{"name": "\u001b\n"}, {"name": "` + long + `"}], "tensors": [{"bytes": 1, "producer": 0, "consumers": [1]}, {"bytes": 1, "producer": 1, "consumers": [0]}]}`,
		"costs.json":   `{"\u001b[2J\n": -1}`,
		"number.json":  `{"nodes": [{"cost": ` + strings.Repeat("1", 100_000) + `}]}`,
		"bad.npz":      npz.String(),
		"bad.npy":      "\x93NUMPY\x01\x00\x20\x00" + "{'descr': '\x1b[2J\n', 'fortran_order'",
		"bad.pb":       "\x1b[2J\n",
		"is no model":  "\x1b[2J\n",
		"p2.plan.json": `{"format": "\u001b[2J\n", "version": 1}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "windows" { // names of files
		for _, name := range []string{"d\x1b[2J\n.onnx", "not\xffUTF-8.onnx", strings.Repeat("x", 250)} {
			if err := os.WriteFile(name, plain, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		status int
		args   []string
	}{
		{0, []string{"inspect", "m.onnx", "--tensors"}},
		{0, []string{"inspect", "m.onnx", "--tensors", "--json"}},
		{0, []string{"optimize", "m.onnx", "p.onnx"}},
		{0, []string{"optimize", "m.onnx", "p.onnx", "--json"}},
		{0, []string{"optimize", "--train", "m.onnx", "t.onnx", "--effort", "fast", "--freeze", "bn|bias", "--trainable", "weight"}},
		{0, []string{"verify", "p.onnx"}},
		{0, []string{"compare", "m.onnx"}},
		{1, []string{"explain", "m.onnx", "--limit", "70%"}},
		{0, []string{"explain", "p.onnx", "--json"}},
		{0, []string{"report", "p.onnx", "--text"}},
		{0, []string{"report", "p.onnx"}},
		{0, []string{"diff", "p.plan.json", "t.plan.json"}},
		{0, []string{"diff", "p.plan.json", "t.plan.json", "--json"}},
		{1, []string{"check", "p.plan.json", "--max-arena", "1"}},
		{1, []string{"check", "p.plan.json", "--max-arena", "1", "--json"}},
		{1, []string{"check", "p.plan.json", "--max-arena", "1", "--format", "github"}},
		{0, []string{"run", "p.onnx", "--check"}},
		{0, []string{"run", "p.onnx", "--json", "--check"}},
		{3, []string{"run", "p.onnx", "--inputs", "bad.npz"}},
		{3, []string{"run", "p.onnx", "--input", "\u009b\u2028=bad.npy"}},
		{3, []string{"run", "p.onnx", "--input", "\u009b\u2028=bad.pb"}},
		{3, []string{"run", "p.onnx", "--input", "\x1b[2J=5"}},
		{3, []string{"run", "p.onnx", "--output", "\x1b[2J=x.npy"}},
		{2, []string{"run", "p.onnx", "--output", "\x1b[2J=x"}},
		{3, []string{"run", "p.onnx", "--plan", "t.plan.json"}},
		{1, []string{"verify", "p.onnx", "t.plan.json"}},
		{1, []string{"verify", "t.onnx", "p.plan.json"}},
		{3, []string{"verify", "p.onnx", "p2.plan.json"}},
		{3, []string{"pack", "bad.csv"}},
		{3, []string{"pack", "head.csv"}},
		{0, []string{"pack", "good.csv"}},
		{1, []string{"pack", "good.csv", "--capacity", "1"}},
		{1, []string{"pack", "good.csv", "--capacity", "1", "--json"}},
		{3, []string{"order", "bad.json"}},
		{3, []string{"order", "type.json"}},
		{3, []string{"order", "cycle.json"}},
		{3, []string{"order", "number.json"}},
		{0, []string{"order", "good.json"}},
		{0, []string{"order", "good.json", "--json"}},
		{0, []string{"explain", "good.json"}},
		{0, []string{"compare", "good.json"}},
		{3, []string{"optimize", "m.onnx", "x.onnx", "--limit", "99%", "--costs", "costs.json"}},
		{3, []string{"inspect", "is no model"}},
		{3, []string{"inspect", "\x1b[2J\n"}},
		{2, []string{"\x1b[2J\n"}},
		{2, []string{"inspect", "--\x1b[2J\n"}},
		{2, []string{"optimize", "m.onnx", "x.onnx", "--dim", "\x1b[2J\n=x"}},
		{2, []string{"optimize", "m.onnx", "x.onnx", "--schedule", "\x1b[2J\n"}},
		{2, []string{"optimize", "m.onnx", "x.onnx", "--trainable", "\x1b[2J(\n", "--train"}},
		{0, []string{"inspect", "d\x1b[2J\n.onnx"}},
		{0, []string{"optimize", "d\x1b[2J\n.onnx", "out\x1b[2J\n"}},
		{0, []string{"inspect", "not\xffUTF-8.onnx", "--json"}},
		{0, []string{"compare", "not\xffUTF-8.onnx"}},
		{0, []string{"run", "p.onnx", "--output", "\x1b\u202e\n\x7f=not\xffUTF-8.npy"}},
		{0, []string{"inspect", strings.Repeat("x", 250)}},
		{3, []string{"run", strings.Repeat("x", 250)}},
	} {
		if runtime.GOOS == "windows" && strings.Contains(c.args[1], ".onnx") && len(c.args[1]) > 7 {
			continue
		}
		var out, errs bytes.Buffer
		if status := run(c.args, &out, &errs); status != c.status {
			t.Errorf("%q: exit status %d, expected %d: %s", c.args, status, c.status, &errs)
		}
		if isJSON := len(c.args) > 2 && c.args[len(c.args)-1] == "--json"; isJSON && !json.Valid(out.Bytes()) {
			t.Errorf("%q: not JSON: %s", c.args, &out)
		}
		for _, text := range []string{out.String(), errs.String()} {
			if !utf8.ValidString(text) {
				t.Errorf("%q: not UTF-8: %q", c.args, text)
			}
			for _, r := range text {
				if r != '\n' && !strconv.IsPrint(r) {
					t.Errorf("%q: prints %q in %q", c.args, r, text)
					break
				}
			}
			for _, line := range strings.Split(text, "\n") {
				for _, word := range strings.Fields(line) {
					if n := utf8.RuneCountInString(word); n > 210 && !strings.HasPrefix(word, `"`) { // quotes, brackets
						t.Errorf("%q: prints a word of %d characters: %.300s", c.args, n, word)
					}
				}
			}
		}
		if c.status > 1 && strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: expected one line, found %q", c.args, &errs)
		}
	}
}
