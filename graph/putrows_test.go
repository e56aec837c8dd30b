package graph

import (
	"slices"
	"testing"
)

// TestPutRowsIsItself: the function that AddPutRows adds is recognised, and a function
// of that name with another body is refused.
func TestPutRowsIsItself(t *testing.T) {
	m := &Model{Opsets: []Opset{{Version: 17}}}
	if err := m.AddPutRows(); err != nil {
		t.Fatal(err)
	}
	if err := m.AddPutRows(); err != nil || len(m.Functions) != 1 {
		t.Fatalf("added again: %v, %d functions, want 1", err, len(m.Functions))
	}
	f := m.Functions[0]
	if !f.IsPutRows() || !f.Own() || f.IsSwap() {
		t.Error("not recognised")
	}
	f.Body.Nodes[2].Inputs[2] = f.Body.Inputs[3] // head ends at axes instead of at
	if f.IsPutRows() {
		t.Error("a function with another body is recognised")
	}
	if err := m.AddPutRows(); err == nil {
		t.Error("a function with another body is not refused")
	}
	if err := (&Model{Opsets: []Opset{{Version: 6}}}).AddPutRows(); err == nil {
		t.Error("opset 6: not refused")
	}
	old := &Model{Opsets: []Opset{{Version: 9}}}
	if err := old.AddPutRows(); err != nil || !old.Functions[0].IsPutRows() {
		t.Errorf("opset 9: %v, or not recognised", err)
	}
	slices.Reverse(old.Functions[0].Attrs)
	slices.Reverse(old.Functions[0].Body.Nodes[0].Attrs)
	if !old.Functions[0].IsPutRows() {
		t.Error("opset 9: not recognised with its attributes in another order")
	}
	old.Functions[0].Opsets[0].Version = 10 // in which Slice has no attributes
	if old.Functions[0].IsPutRows() {
		t.Error("opset 10: a function whose Slice has attributes is recognised")
	}
}
