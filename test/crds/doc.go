// Package crds asks the API server's own code, without an API server, whether it
// takes our CustomResourceDefinitions and what their rules make of objects. It is a
// module of its own, so that what it needs is not among what the programs need.
package crds
