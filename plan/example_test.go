package plan_test

import (
	"fmt"
	"log"
	"os"

	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
)

// Verify needs the planned file and the plan beside it, and believes neither.
func ExampleVerify() {
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
	r, err := plan.Verify(file.Model, p, plan.VerifyOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(r)
}
