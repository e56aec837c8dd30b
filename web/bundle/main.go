// Command bundle builds onnxmem's page and npm package: `make web`.
//
//	main.go   what is built, and the page's server
//	wasm.go   the planner, without what a browser does not need
//	page.go   the page, one file
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
)

func main() {
	log.SetFlags(0)
	version := flag.String("version", "(devel)", "of the command, for plans")
	serve := flag.String("serve", "", "serve what was built at this address, such as localhost:8080")
	flag.Parse()
	if *serve != "" {
		fmt.Printf("http://%s/\n", *serve)
		log.Fatal(http.ListenAndServe(*serve, http.FileServer(http.Dir(pageDir))))
	}
	if err := build(*version); err != nil {
		log.Fatal("bundle: ", err)
	}
}

// The folders that are written.
const (
	workDir = "build/web-work" // what the builds need
	pageDir = "build/web"
	npmDir  = "build/npm"
)

func build(version string) error {
	wasm, err := planner(version)
	if err != nil {
		return err
	}
	packed, err := pack(wasm)
	if err != nil {
		return err
	}
	fmt.Printf("onnxmem.wasm: %d B, %d B after gzip -9\n", len(wasm), len(packed))
	if len(packed) > mostPacked {
		fmt.Printf("more than the %d B that are wanted\n", mostPacked)
	}
	if err := page(wasm, packed); err != nil {
		return err
	}
	return npm(wasm, version)
}

// mostPacked is the most that the planner may take: a second of a slow line.
const mostPacked = 6_000_000

// write writes a file of a folder.
func write(path string, text []byte) error { return os.WriteFile(path, text, 0o666) }
