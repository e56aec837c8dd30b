package rowmap

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
)

// TestElementwise: what is mapped as elementwise here, by names, is of that class in package
// ops, and the other way round.
func TestElementwise(t *testing.T) {
	same := func(f, g any) bool { return reflect.ValueOf(f).Pointer() == reflect.ValueOf(g).Pointer() }
	for _, domain := range ops.Domains() {
		for _, name := range ops.Names(domain) {
			key := strings.TrimPrefix(domain+"."+name, ".")
			f, mapped := table[key]
			if !mapped {
				continue
			}
			here := slices.ContainsFunc([]any{likeFirst, broadcast, quantizedPair, biased}, func(g any) bool { return same(f, g) })
			if class := ops.Lookup(domain, name).Class; here != (class == ops.Elementwise) {
				t.Errorf("%s: mapped as elementwise: %v, and in package ops of class %v", key, here, class)
			}
		}
	}
}
