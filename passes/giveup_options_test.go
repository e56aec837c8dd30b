package passes

import "testing"

// givable turn on options that features are given up for, or that stand in their way.
var givable = []func(*Options){
	func(o *Options) { o.Limit = &Limit{Percent: 50} },
	func(o *Options) { o.ExtraPercent = 5 },
	func(o *Options) { o.Host = &Host{Link: 1} },
	func(o *Options) { o.Host = &Host{Link: 1, NoRecompute: true} },
	func(o *Options) { o.NoRecompute = true },
	func(o *Options) { o.Slices = SlicesAny },
	func(o *Options) { o.Compact = true },
	func(o *Options) { o.Pools = []Pool{{Name: "a", Capacity: 1}, {Name: "b", Capacity: 1}} },
	func(o *Options) { o.Aliases = AliasesOn },
	func(o *Options) { o.NoViews = true },
	func(o *Options) { o.Frontier = true },
	func(o *Options) { o.Runtime = "onnxruntime" },
}

// TestGivingUpAsksForWhatIsValid: where any of these may be asked for together, so may they without
// each feature that may be given up, and in the one way that they are planned by.
func TestGivingUpAsksForWhatIsValid(t *testing.T) {
	valid := 0
	for set := range 1 << len(givable) {
		var o Options
		for i, turnOn := range givable {
			if set>>i&1 == 1 {
				turnOn(&o)
			}
		}
		if o.Validate() != nil {
			continue
		}
		valid++
		asked := o.plain()
		if err := asked.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		for i := range features {
			less := asked
			if !features[i].leave(&less) {
				continue
			}
			if err := less.Validate(); err != nil {
				t.Errorf("%+v without %s: %v", o, features[i].name, err)
			}
		}
	}
	if valid < 200 {
		t.Errorf("%d sets of options are valid: expected more", valid)
	}
}
