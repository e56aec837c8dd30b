package units_test

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/internal/units"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0:              "0 B",
		1023:           "1023 B",
		1024:           "1.00 KiB (1,024 B)",
		8028160:        "7.66 MiB (8,028,160 B)",
		-2048:          "-2.00 KiB (-2,048 B)",
		math.MaxInt64:  "8.00 EiB (9,223,372,036,854,775,807 B)",
		math.MinInt64:  "-8.00 EiB (-9,223,372,036,854,775,808 B)",
		100 << 20:      "100.00 MiB (104,857,600 B)",
		1<<30 - 1:      "1024.00 MiB (1,073,741,823 B)",
		12345678901234: "11.23 TiB (12,345,678,901,234 B)",
	} {
		if got := units.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, expected %q", n, got, want)
		}
	}
}
