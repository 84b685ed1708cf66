// Package python holds the scripts that run with the interpreter of Medusa's
// image, with Medusa's own code.
package python

import _ "embed"

//go:embed common.py
var common string

//go:embed asking.py
var asking string

//go:embed lookup.py
var lookup string

//go:embed precheck.py
var precheck string

//go:embed restore.py
var restore string

//go:embed serve.py
var serve string

// Precheck tells as JSON what is to be known before a restore.
var Precheck = common + asking + precheck

// Lookup tells as JSON which backups the storage holds, or what one of them holds.
var Lookup = common + asking + lookup

// Restore runs medusa.service.grpc.restore.
var Restore = common + restore

// Serve runs medusa.service.grpc.server.
var Serve = common + serve
