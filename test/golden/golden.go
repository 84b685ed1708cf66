// Package golden holds the flag with which tests rewrite their golden files. A
// test package without any imports it too, so that go test ./... -update works.
package golden

import "flag"

// Update is set by -update.
var Update = flag.Bool("update", false, "rewrite the golden files")
