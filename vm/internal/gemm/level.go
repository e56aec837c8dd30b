package gemm

import "fmt"

// A level is a set of micro-kernels.
type level int8

const (
	plain  level = iota // Go, 4 x 8
	avx2                // AVX2 and FMA, 6 x 16
	avx512              // AVX-512, 12 x 32
)

var levels = [...]struct {
	name          string
	rows, columns int // of the block of C that a micro-kernel computes
}{
	plain:  {"plain", 4, 8},
	avx2:   {"avx2", 6, 16},
	avx512: {"avx512", 12, 32},
}

func (l level) String() string { return levels[l].name }

// chosen is the best level of this machine, unless Use changed it.
var chosen = best()

// Level names the micro-kernels in use.
func Level() string { return chosen.String() }

// Levels names the micro-kernels that this machine can run, the best last.
func Levels() []string {
	var list []string
	for l := plain; l <= best(); l++ {
		list = append(list, l.String())
	}
	return list
}

// Use chooses micro-kernels by name, for tests and measurements. Operands and kernels
// that were packed or prepared before must not be used afterwards.
func Use(name string) error {
	for l := plain; l <= best(); l++ {
		if l.String() == name {
			chosen = l
			return nil
		}
	}
	return fmt.Errorf("micro-kernels %q: expected one of %v", name, Levels())
}
