package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goScript is Go's own part of a program in JavaScript.
func goScript() ([]byte, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
}

// page writes the page: one file with all that it needs, so that it works from a disk, where
// browsers let a page read no other file. The planner lies at its end, as text.
func page(wasm, packed []byte) error {
	text, err := os.ReadFile("web/page/index.html")
	if err != nil {
		return err
	}
	run, err := goScript()
	if err != nil {
		return err
	}
	engine, err := os.ReadFile("web/npm/engine.js")
	if err != nil {
		return err
	}
	worker := string(run) + "\n" + string(engine)
	if strings.Contains(worker, "</script") {
		return fmt.Errorf("the worker's script holds the end of a script")
	}
	for name, content := range map[string]string{
		"style":  file("web/page/page.css"),
		"script": file("web/npm/flags.js") + file("web/page/page.js"),
		"worker": worker,
		"wasm":   base64.StdEncoding.EncodeToString(packed),
	} {
		mark := []byte("{{" + name + "}}")
		if bytes.Count(text, mark) != 1 {
			return fmt.Errorf("index.html: expected %s once", mark)
		}
		text = bytes.Replace(text, mark, []byte(content), 1)
	}
	if err := os.MkdirAll(pageDir, 0o777); err != nil {
		return err
	}
	if err := write(pageDir+"/onnxmem.wasm", wasm); err != nil {
		return err
	}
	return write(pageDir+"/index.html", text)
}

// file is the text of a file of the sources; one that is missing shows in a page that does not
// work, which a test notices.
func file(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
	}
	return strings.ReplaceAll(string(text), "export ", "")
}

// npm writes the npm package.
func npm(wasm []byte, version string) error {
	if err := os.MkdirAll(npmDir, 0o777); err != nil {
		return err
	}
	run, err := goScript()
	if err != nil {
		return err
	}
	if err := write(npmDir+"/wasm_exec.js", run); err != nil {
		return err
	}
	if err := write(npmDir+"/onnxmem.wasm", wasm); err != nil {
		return err
	}
	files, err := filepath.Glob("web/npm/*")
	if err != nil {
		return err
	}
	for _, path := range append(files, "LICENSE") {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Base(path) == "package.json" {
			if text, err = versioned(text, version); err != nil {
				return err
			}
		}
		if err := write(filepath.Join(npmDir, filepath.Base(path)), text); err != nil {
			return err
		}
	}
	return nil
}

// versioned sets the version of package.json: npm wants three numbers.
func versioned(text []byte, version string) ([]byte, error) {
	var about map[string]any
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, fmt.Errorf("package.json: %w", err)
	}
	numbers, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	if strings.Count(numbers, ".") == 2 {
		about["version"] = numbers
	}
	out, err := json.MarshalIndent(about, "", "  ")
	return append(out, '\n'), err
}
