// Package certs is the pure part of Stategraft's certificates: what an
// authority is, what it issues, when either is due, and in which steps an
// authority is replaced so that no connection is refused meanwhile. It knows no
// cluster: data in, data out, with the time as an argument.
//
//	ca.go          an authority: made, read, written
//	issue.go       what it signs, and whether that still serves
//	pem.go         certificates and bundles as PEM
//	state.go       the state of our own authority, as its Secrets hold it
//	next.go        the step from one state to the next
//	source.go      where an authority comes from: ours, or one that another fills
//	succession.go  following an authority that another replaces
//	selfsigned.go  a pair in one call, for tests and demonstrations
package certs
