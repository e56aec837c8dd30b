package prooftest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Installed is the path of VeriPB, from the environment variable ONNXMEM_VERIPB; "" if it is
// not installed.
func Installed() string { return os.Getenv("ONNXMEM_VERIPB") }

// VeriPB checks a proof by VeriPB and returns the bounds that it concludes. The files are
// written to a folder.
func VeriPB(dir, opb, pbp string) (lower, upper int64, err error) {
	formula, proof := filepath.Join(dir, "formula.opb"), filepath.Join(dir, "proof.pbp")
	for path, text := range map[string]string{formula: opb, proof: pbp} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return 0, 0, err
		}
	}
	c := exec.Command(Installed(), "--hide-warnings", formula, proof)
	c.Env = append(os.Environ(), "RUST_BACKTRACE=0")
	out, err := c.CombinedOutput()
	at := strings.LastIndex(string(out), "s VERIFIED BOUNDS ")
	if err != nil || at < 0 {
		return 0, 0, fmt.Errorf("%v: %.300s", err, out)
	}
	_, err = fmt.Sscanf(string(out[at:]), "s VERIFIED BOUNDS %d <= obj <= %d", &lower, &upper)
	return lower, upper, err
}
