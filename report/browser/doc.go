// Package browser tests the page of package report in a real browser. It is a module of its
// own, so that whoever imports onnxmem does not get the client of the browser's protocol.
package browser
