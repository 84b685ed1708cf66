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

//go:embed running.py
var running string

//go:embed counting.py
var counting string

//go:embed discard.py
var discard string

//go:embed contents.py
var contents string

//go:embed serve.py
var serve string

// Precheck tells as JSON what is to be known before a restore.
var Precheck = common + asking + precheck

// Lookup tells as JSON which backups the storage holds, or what one of them holds.
var Lookup = common + asking + lookup

// Restore runs medusa.service.grpc.restore.
var Restore = common + restore

// Serve runs medusa.service.grpc.server.
var Serve = common + running + counting + serve

// Discard removes this node's part of a backup that is not complete from the storage.
var Discard = common + asking + discard

// Contents tells as JSON what was counted of a node's part in a backup.
var Contents = common + asking + contents
