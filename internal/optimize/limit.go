package optimize

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/internal/strictjson"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
)

// LimitFlags set a limit and the costs of recomputation.
type LimitFlags struct {
	Limit      *units.Limit `group:"memory" placeholder:"SIZE|N%" help:"Recompute until the peak is at most this. That is a size such as 8GiB, or 60% of the best order's peak. It takes the least extra time that is found."`
	Frontier   bool         `group:"memory" help:"List what other limits cost. They are 5% of the best order's peak apart."`
	Slices     string       `group:"memory" enum:"off,exact,any" default:"off" help:"Also run regions in slices: below any order. With --limit, --extra, --frontier or --pool. exact: along axes whose rows do not depend on each other; any: also sums, whose last bits may change."`
	Compact    bool         `group:"memory" seldom:"" json:",omitempty" help:"With --slices: write their nodes once, in functions. The file is smaller; the peak may be a little larger."`
	Extra      *units.Limit `group:"memory" placeholder:"N%" help:"Smallest peak for at most N% more time. Without --limit: by running nodes again, and by what --slices and --host-link allow. With --limit, the most time that it may cost; with --max-batch, too (default 10%)."`
	LimitArena bool         `group:"memory" seldom:"" help:"With --limit: keep the arena within the limit, too, not only the peak."`
	HostFlags
	Pool   []units.Pool `group:"memory" sep:"none" placeholder:"NAME=SIZE[@RATE]" help:"Several memories, the fastest first. They take the place of one arena: --pool sram=256KiB --pool psram=8MiB@100MB/s. Nodes read and write each buffer where it lies; the fewest bytes move in all memories but the first."`
	Device string       `group:"memory" seldom:"" placeholder:"DEVICE" help:"Device whose costs are estimated. gpu (default), cpu (one core) or roofline (no costs of small nodes); and, or alone, flops=15e12,bandwidth=700e9 per second (below 1e12: a cpu)."`
	Costs  string       `group:"memory" seldom:"" in:"the costs of nodes" placeholder:"FILE.json" help:"Costs of nodes by name, in nanoseconds. run --costs-out measures them; others are estimated."`
}

// HostFlags describe a host memory for swapped tensors.
type HostFlags struct {
	HostLink    units.Rate `group:"memory" json:",omitempty" placeholder:"RATE" help:"Also swap tensors to a host over such a link. With --limit, --extra or --frontier; with --pool, the host is one more pool, without a limit. RATE is that of each way, such as 12GB/s."`
	NoSwap      bool       `group:"memory" seldom:"" help:"With --host-link: only recompute, never swap."`
	NoRecompute bool       `group:"memory" seldom:"" help:"With --host-link: only swap, never recompute. With --slices: only slices."`
}

// Linked reports whether tensors may be swapped.
func (f *HostFlags) Linked() bool { return f.HostLink > 0 && !f.NoSwap }

// Limits sets the options of the passes from the flags.
func (f *LimitFlags) Limits(opt *passes.Options) (err error) {
	if f.Limit != nil {
		opt.Limit = &passes.Limit{Bytes: f.Limit.Bytes, Percent: f.Limit.Percent, Arena: f.LimitArena}
	}
	for _, p := range f.Pool {
		opt.Pools = append(opt.Pools, passes.Pool{Name: p.Name, Capacity: int64(p.Capacity), BytesPerSecond: int64(p.Rate)})
	}
	opt.Frontier, opt.Compact, opt.Slices = f.Frontier, f.Compact, passes.SliceModes[f.Slices]
	if f.Extra != nil {
		opt.ExtraPercent = f.Extra.Percent
	}
	opt.NoRecompute = f.NoRecompute && !f.Linked()
	if f.Linked() {
		opt.Host = &passes.Host{Link: int64(f.HostLink), NoRecompute: f.NoRecompute}
	}
	if f.Device != "" {
		if opt.Device, err = device(f.Device); err != nil {
			return err
		}
	}
	if f.Costs != "" {
		opt.Costs, err = readCosts(f.Costs)
	}
	return err
}

// leastGPU is the least number of operations per second of a device that is taken for a
// GPU if its kind is not said.
const leastGPU = 1e12

// device reads a device: a kind, flops and bandwidth, separated by commas, each of which
// may be left out.
func device(text string) (d passes.Device, err error) {
	wrong := &UsageError{fmt.Sprintf("--device %s: expected gpu, cpu or roofline, flops=NUMBER and bandwidth=NUMBER, such as cpu or cpu,flops=50e9,bandwidth=20e9", graph.Short(text))}
	d = passes.DefaultDevice
	said := map[string]bool{}
	for i, part := range strings.Split(text, ",") {
		name, number, figure := strings.Cut(part, "=")
		if said[name] {
			return d, wrong
		}
		said[name] = true
		if !figure {
			preset, known := passes.Devices[name]
			if !known || i > 0 {
				return d, wrong
			}
			d = preset
			continue
		}
		value, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil:
			return d, wrong
		case name == "flops":
			if d.FLOPS = value; !said["gpu"] && !said["cpu"] && !said["roofline"] && value < leastGPU {
				d.Kind = passes.CPU
			}
		case name == "bandwidth":
			d.Bandwidth = value
		default:
			return d, wrong
		}
	}
	return d, nil
}

// maxCosts limits the size of the file of costs.
const maxCosts = 1 << 30

// mostCost is the largest cost of a node: eleven days.
const mostCost = 1e15

// readCosts reads {"node name": nanoseconds}.
func readCosts(path string) (map[string]int64, error) {
	refuse := func(err error) (map[string]int64, error) {
		return nil, &graph.Error{File: path, Offset: -1, Err: err}
	}
	f, err := readable.Open(path)
	if err != nil {
		return refuse(err)
	}
	defer f.Close()
	var costs map[string]float64
	text, err := strictjson.ReadObject(f, maxCosts)
	if err == nil {
		err = strictjson.Rules{Complete: true}.Unmarshal(text, &costs)
	}
	if err != nil {
		return refuse(fmt.Errorf(`expected {"node name": nanoseconds}: %w`, err))
	}
	list := make(map[string]int64, len(costs))
	for name, ns := range costs {
		if !(ns >= 0 && ns <= mostCost) {
			return refuse(fmt.Errorf("node %q: expected from 0 to %.0e nanoseconds, found %v", graph.Short(name), mostCost, ns))
		}
		list[name] = int64(ns)
	}
	return list, nil
}
