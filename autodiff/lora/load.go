package lora

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/autodiff/lora/internal/safetensors"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
)

// Saved are adapters that were read from PEFT's files.
type Saved struct {
	modules map[string]*saved
	whole   map[string]*constant.Tensor // parameters that were saved whole, by name
}

// saved is the adapter of one module: A and B in PEFT's shapes.
type saved struct {
	kind  Kind
	parts [2]*constant.Tensor
	scale float64
}

// Modules are the names of the modules that have an adapter, in ascending order.
func (s *Saved) Modules() []string { return slices.Sorted(maps.Keys(s.modules)) }

// Decode reads the two files of an adapter. What it cannot represent, such as DoRA, is refused.
func Decode(conf, weights []byte) (*Saved, error) {
	c := config{Alpha: DefaultAlpha, R: 8, Bias: "none"}
	if err := json.Unmarshal(conf, &c); err != nil {
		return nil, graph.Errorf("%s: %v: expected a configuration of PEFT", ConfigFile, err)
	}
	if why := c.refused(); why != "" {
		return nil, graph.Errorf("%s: %s", ConfigFile, why)
	}
	list, err := safetensors.Read(weights)
	if err != nil {
		return nil, graph.Errorf("%s: %w", WeightsFile, err)
	}
	s := &Saved{map[string]*saved{}, map[string]*constant.Tensor{}}
	for i := range list {
		if err := s.take(&list[i]); err != nil {
			return nil, graph.Errorf("%s: tensor %q: %w", WeightsFile, graph.Short(list[i].Name), err)
		}
	}
	if len(s.modules) == 0 && len(s.whole) == 0 {
		return nil, graph.Errorf("%s: expected tensors of adapters, found none", WeightsFile)
	}
	for _, name := range s.Modules() {
		a := s.modules[name]
		if why := a.wrong(); why != "" {
			return nil, graph.Errorf("%s: module %q: %s", WeightsFile, graph.Short(name), why)
		}
		if a.scale, err = c.scaleOf(name, a.rank()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// refused says what of a configuration is no plain adapter; "" if all is.
func (c *config) refused() string {
	given := func(m json.RawMessage) bool { return len(m) > 0 && string(m) != "null" }
	switch {
	case c.PeftType != "LORA":
		return fmt.Sprintf("peft_type is %q: expected LORA", graph.Short(c.PeftType))
	case c.Dora:
		return "use_dora is true: expected false, since DoRA also scales the columns of the weights, which merging by addition cannot do"
	case c.Bias != "none" && c.Bias != "" || c.LoraBias:
		return "biases are trained: expected bias none and no lora_bias"
	case c.R < 1 || c.R > mostRank || math.IsNaN(c.Alpha) || math.IsInf(c.Alpha, 0):
		return fmt.Sprintf("r is %d and lora_alpha %g: expected a rank of 1 to %d and a number", c.R, c.Alpha, mostRank)
	case given(c.LayerReplication), given(c.TrainableTokens), given(c.MegatronConfig), given(c.ArrowConfig), given(c.AloraInvocation), len(c.TargetParameters) > 0, c.UseQalora:
		return "it has a variant of LoRA that merging does not know: expected layer_replication, trainable_token_indices, target_parameters and their like not to be set"
	}
	return ""
}

// scaleOf is the factor of B A for a module: alpha by the first pattern that its name ends with.
func (c *config) scaleOf(module string, rank int64) (float64, error) {
	alpha := c.Alpha
	for _, key := range slices.Sorted(maps.Keys(c.AlphaPattern)) {
		p, err := regexp.Compile(`^(.*\.)?(` + key + `)$`)
		if err != nil {
			return 0, graph.Errorf("%s: alpha_pattern: %v", ConfigFile, err)
		}
		if p.MatchString(module) {
			alpha = c.AlphaPattern[key]
			break
		}
	}
	if c.RankStabilized {
		return alpha / math.Sqrt(float64(rank)), nil
	}
	return alpha / float64(rank), nil
}

// take sorts a tensor to its module.
func (s *Saved) take(t *safetensors.Tensor) error {
	name, ours := strings.CutPrefix(t.Name, prefix)
	if !ours {
		return fmt.Errorf("expected a name that begins with %s", prefix)
	}
	x := &constant.Tensor{Type: t.Type, Shape: t.Shape, Raw: t.Raw}
	if !float(t.Type) {
		return fmt.Errorf("has type %v: expected a floating-point type", t.Type)
	}
	for _, kind := range []Kind{Linear, Embedding} {
		for k, part := range kind.parts() {
			module, is := strings.CutSuffix(name, "."+part)
			if !is {
				continue
			}
			a := s.modules[module]
			if a == nil {
				a = &saved{kind: kind}
				s.modules[module] = a
			}
			if kind == Linear && len(t.Shape) > 2 {
				a.kind = Convolution
			} else if kind != a.kind && a.kind != Convolution {
				return fmt.Errorf("expected tensors of one kind for a module")
			}
			a.parts[k] = x
			return nil
		}
	}
	if strings.Contains(name, ".lora_") {
		return fmt.Errorf("expected lora_A.weight, lora_B.weight, lora_embedding_A or lora_embedding_B")
	}
	s.whole[name] = x
	return nil
}

// wrong says what is wrong with the shapes of an adapter, "" if nothing is.
func (a *saved) wrong() string {
	x, y := a.parts[0], a.parts[1]
	switch {
	case x == nil || y == nil:
		return "expected both A and B, found one"
	case len(x.Shape) < 2 || len(y.Shape) != len(x.Shape) || x.Shape[0] < 1 || x.Shape[0] > mostRank || x.Shape[0] != y.Shape[1]:
		return fmt.Sprintf("A has shape %v and B %v: expected [r, in] and [out, r]", x.Shape, y.Shape)
	case slices.ContainsFunc(y.Shape[2:], func(n int64) bool { return n != 1 }):
		return fmt.Sprintf("B has shape %v: expected a kernel of 1 x 1", y.Shape)
	}
	return ""
}

func (a *saved) rank() int64 { return a.parts[0].Shape[0] }
