package passes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/ops"
)

// checkRuntime refuses a runtime that is unknown, and options whose plans it cannot keep:
// those that write nodes of onnxmem's own domain, or results over what the caller owns.
func (o *Options) checkRuntime() error {
	if o.Runtime == "" {
		if o.RuntimeOrder {
			return errors.New("the default order of a runtime: expected option Runtime to name it")
		}
		return nil
	}
	if ops.LookupRuntime(o.Runtime) == nil {
		var names []string
		for _, r := range ops.Runtimes {
			names = append(names, r.Name)
		}
		return fmt.Errorf("runtime %q is unknown: expected one of %s", o.Runtime, strings.Join(names, ", "))
	}
	for _, c := range []struct {
		asked bool
		what  string
	}{
		{o.Train != nil, "training: the runtime does not write updates over parameters"},
		{len(o.States) > 0 || o.StatesAuto || o.KVCapacity > 0, "states: the runtime does not write over graph inputs"},
		{o.Aliases == AliasesOn, "aliases: the runtime runs Concat, Split, Slice and Gather as copies"},
		{o.Slices != SlicesOff, "slices: the runtime does not know the nodes that put rows in place"},
		{o.RuntimeOrder && (o.Limit != nil || o.ExtraPercent > 0 || o.Frontier), "its default order and a limit: plan one of them"},
		{o.RuntimeOrder && len(o.Ranges) > 0, "its default order and ranges of dimensions: plan one of them"},
		{o.RuntimeOrder && o.KeepRandomOrder, "its default order and that of random operators"},
		{o.Host != nil, "swaps: the runtime does not know these nodes"},
	} {
		if c.asked {
			return fmt.Errorf("runtime %s: not with %s", o.Runtime, c.what)
		}
	}
	return nil
}
