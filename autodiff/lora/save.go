package lora

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/autodiff/lora/internal/safetensors"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
)

// The files of an adapter in its folder, as PEFT names them.
const (
	ConfigFile  = "adapter_config.json"
	WeightsFile = "adapter_model.safetensors"
)

// prefix stands before the names of modules in a file of PEFT.
const prefix = "base_model.model."

// config are the entries of adapter_config.json that we write, and those of others that say
// what we must know to read an adapter.
type config struct {
	PeftType          string             `json:"peft_type"`
	TaskType          *string            `json:"task_type"`
	BaseModel         *string            `json:"base_model_name_or_path"`
	InferenceMode     bool               `json:"inference_mode"`
	R                 int                `json:"r"`
	TargetModules     json.RawMessage    `json:"target_modules"` // a list, or a pattern
	Alpha             float64            `json:"lora_alpha"`
	Dropout           float64            `json:"lora_dropout"`
	FanInFanOut       bool               `json:"fan_in_fan_out"`
	Bias              string             `json:"bias"`
	RankStabilized    bool               `json:"use_rslora"`
	ModulesToSave     []string           `json:"modules_to_save"`
	InitWeights       json.RawMessage    `json:"init_lora_weights"`
	RankPattern       map[string]int     `json:"rank_pattern"`
	AlphaPattern      map[string]float64 `json:"alpha_pattern"`
	Dora              bool               `json:"use_dora"`
	LoraBias          bool               `json:"lora_bias,omitempty"`
	LayerReplication  json.RawMessage    `json:"layer_replication,omitempty"`
	TargetParameters  []string           `json:"target_parameters,omitempty"`
	TrainableTokens   json.RawMessage    `json:"trainable_token_indices,omitempty"`
	MegatronConfig    json.RawMessage    `json:"megatron_config,omitempty"`
	EvaConfig         json.RawMessage    `json:"eva_config,omitempty"`
	ArrowConfig       json.RawMessage    `json:"arrow_config,omitempty"`
	UseQalora         bool               `json:"use_qalora,omitempty"`
	AloraInvocation   json.RawMessage    `json:"alora_invocation_tokens,omitempty"`
	EnsureWeightTying bool               `json:"ensure_weight_tying,omitempty"`
}

// Encode returns the two files of the adapters of a step that PEFT loads: the configuration and
// the tensors. values gives the elements of a parameter, float32, in the shape that it has in the
// model. others are further parameters that the step has trained; they are saved whole.
func (r *Record) Encode(others []string, values func(name string) (*graph.Data, error)) (conf, weights []byte, err error) {
	c := config{PeftType: "LORA", InferenceMode: true, R: r.Rank, Alpha: r.Alpha, Dropout: r.Dropout, Bias: "none", RankStabilized: r.RankStabilized, InitWeights: json.RawMessage("true"), RankPattern: map[string]int{}, AlphaPattern: map[string]float64{}}
	var list []safetensors.Tensor
	var targets []string
	for _, a := range r.Adapters {
		targets = append(targets, a.Module)
		parts := a.Kind.parts()
		for k, name := range []string{a.A, a.B} {
			t, err := tensorOf(name, values)
			if err != nil {
				return nil, nil, err
			}
			if a.Kind.Turned() {
				if len(t.Shape) != 2 {
					return nil, nil, graph.Errorf("parameter %q has shape %v: expected a matrix, as its metadata say", graph.Short(name), t.Shape)
				}
				t = transposed(t)
			}
			t.Name = prefix + a.Module + "." + parts[k]
			list = append(list, t)
		}
	}
	for _, name := range others {
		t, err := tensorOf(name, values)
		if err != nil {
			return nil, nil, err
		}
		module := name
		if k := strings.LastIndexByte(name, '.'); k > 0 {
			module = name[:k]
		}
		if !slices.Contains(c.ModulesToSave, module) {
			c.ModulesToSave = append(c.ModulesToSave, module)
		}
		t.Name = prefix + name
		list = append(list, t)
	}
	slices.Sort(targets)
	if c.TargetModules, err = json.Marshal(targets); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(list, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	if err := safetensors.Write(&b, list); err != nil {
		return nil, nil, err
	}
	conf, err = json.MarshalIndent(c, "", "  ")
	return append(conf, '\n'), b.Bytes(), err
}

func tensorOf(name string, values func(string) (*graph.Data, error)) (t safetensors.Tensor, err error) {
	d, err := values(name)
	if err != nil {
		return t, err
	}
	x, err := constant.NewFiles(&graph.Model{Graph: &graph.Graph{}}).Read(d)
	if err != nil {
		return t, fmt.Errorf("%q: %w", graph.Short(name), err)
	}
	return safetensors.Tensor{Name: name, Type: x.Type, Shape: x.Shape, Raw: x.Raw}, nil
}

// transposed returns a matrix transposed.
func transposed(t safetensors.Tensor) safetensors.Tensor {
	rows, columns := t.Shape[0], t.Shape[1]
	w := int64(t.Type.Bits() / 8)
	out := make([]byte, 0, len(t.Raw))
	for j := range columns {
		for i := range rows {
			at := (i*columns + j) * w
			out = append(out, t.Raw[at:at+w]...)
		}
	}
	return safetensors.Tensor{Name: t.Name, Type: t.Type, Shape: []int64{columns, rows}, Raw: out}
}
