package opcase

import (
	"slices"
	"testing"
)

// TestElementwise: operators have the inputs and the attributes of their signatures.
func TestElementwise(t *testing.T) {
	list, err := Elementwise(3, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name                   string
		version, inputs, attrs int
	}{
		{"Abs", 18, 1, 0},
		{"Add", 18, 2, 0},
		{"Celu", 18, 1, 1},
		{"Swish", 24, 1, 1},
		{"HardSigmoid", 18, 1, 2},
		{"Affine", 18, 1, 2},
		{"com.microsoft.QuickGelu", 1, 1, 1},
		{"Clip", 0, 0, 0},
		{"Gelu", 0, 0, 0},
		{"Max", 0, 0, 0},
		{"Not", 0, 0, 0},
		{"Cast", 0, 0, 0},
		{"Softmax", 0, 0, 0},
	} {
		i := slices.IndexFunc(list, func(c Case) bool { return c.Name() == want.name })
		if want.inputs == 0 {
			if i >= 0 {
				t.Errorf("%s has the case %+v, expected none", want.name, list[i])
			}
			continue
		}
		if i < 0 {
			t.Errorf("%s has no case", want.name)
		} else if c := list[i]; c.Version != int64(want.version) || len(c.In) != want.inputs || len(c.Attrs) != want.attrs {
			t.Errorf("%s has the case %+v, expected version %d, %d inputs and %d attributes", want.name, c, want.version, want.inputs, want.attrs)
		}
	}
}
