package reference

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
)

// TestTypesAsInSignatures: inputs that must have one type here have one symbol in the newest
// signature of ONNX, and integers are int64 there; no elementwise operator is missing.
func TestTypesAsInSignatures(t *testing.T) {
	b, err := os.ReadFile("../../ops/signatures.txt")
	if err != nil {
		t.Fatal(err)
	}
	inputs, only := map[string][]string{}, map[string][]string{} // by operator, and by operator and symbol
	op := ""
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 2 && !strings.HasPrefix(line, " "):
			if op = ""; fields[0] == "ai.onnx" {
				op = fields[1]
			}
		case op == "" || len(fields) < 2:
		case slices.Contains(fields, ">"):
			inputs[op] = nil
			for _, f := range fields[1:slices.Index(fields, ">")] {
				inputs[op] = append(inputs[op], strings.TrimRight(f, "?*~"))
			}
		default:
			only[op+" "+fields[0]] = fields[1:]
		}
	}
	for op, at := range alike {
		symbols := inputs[op]
		if at != nil {
			symbols = nil
			for _, i := range at {
				symbols = append(symbols, inputs[op][i])
			}
		}
		if len(slices.Compact(slices.Clone(symbols))) != 1 {
			t.Errorf("%s: inputs %v must have one type, but the signature has %v", op, at, inputs[op])
		}
	}
	for op, at := range integers {
		for _, i := range at {
			symbol := inputs[op][i]
			if types := only[op+" "+symbol]; symbol != "int64" && !slices.Contains(types, "int64") {
				t.Errorf("%s: input %d must be int64, but the signature has %s %v", op, i, symbol, types)
			}
		}
	}
	symbol := regexp.MustCompile(`^[A-Z]`)
	for _, op := range ops.Names("") {
		list := inputs[op]
		shared := len(list) > 1 && symbol.MatchString(list[0]) && len(slices.Compact(slices.Clone(list))) == 1
		if _, listed := alike[op]; shared && !listed && ops.Lookup("", op).Class == ops.Elementwise && table[key{"", op}] != nil {
			t.Errorf("%s: all inputs have one type in the signature, but not here", op)
		}
	}
}
