package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// step 0: product  load 1280 bytes
	// step 1: left     load 1280 bytes
	// step 2: right    load 2304 bytes
	// step 3: y        load 2048 bytes
	// arena      2048 +  256  steps 0-2  [x]
	// arena         0 + 1024  steps 0-3  [product left y]
	// arena      1024 + 1024  steps 2-3  [right]
	// resident      0 +65536  steps 0-3  [w]
	// resident  65536 +65536  steps 0-3  [v]
}
