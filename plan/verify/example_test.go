package verify_test

import (
	"fmt"
	"log"
	"os"

	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// Plan needs the planned file and the plan beside it, and trusts neither.
func ExamplePlan() {
	sidecar, err := os.Open("out.plan.json")
	if err != nil {
		log.Fatal(err)
	}
	defer sidecar.Close()
	p, err := plan.Read(sidecar)
	if err != nil {
		log.Fatalf("out.plan.json: %v", err)
	}
	file, err := onnx.Open("out.onnx", onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	r, err := verify.Plan(file.Model, p, verify.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(r)
}
