package passes

import (
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/ops"
)

// checkRuntime refuses a runtime that is unknown.
func (o *Options) checkRuntime() error {
	if o.Runtime != "" && ops.LookupRuntime(o.Runtime) == nil {
		var names []string
		for _, r := range ops.Runtimes {
			names = append(names, r.Name)
		}
		return fmt.Errorf("runtime %q is unknown: expected one of %s", o.Runtime, strings.Join(names, ", "))
	}
	return nil
}
