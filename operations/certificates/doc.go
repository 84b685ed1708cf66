// Package certificates keeps the certificates of Stategraft, in both modes: the
// webhook's serving pair and its authority (ours, or cert-manager's), and the
// pairs with which the sidecars' gRPC services and the controllers know each
// other.
//
//	options.go     what can be set, and the names of the objects
//	add.go         the controllers and what each of them watches
//	source.go      who signs: our own authority, or cert-manager's
//	rotation.go    self-signed: authority, serving pair, their Secrets
//	publish.go     self-signed: the caBundle of the webhook configuration
//	namespaces.go  the Secret stategraft-grpc of each labelled namespace
//	client.go      TLS for a client of the sidecars
//	expiry.go      when what ends, as metrics
//	metrics.go     the metrics
//	secrets.go     reading and writing Secrets
//
// What is to be done when is decided in package certs, which knows no cluster.
//
// Secrets are watched and read by name only, three names in all. They are created
// by server-side apply, whose request carries the name, so that the rights to
// create can be bound to names too (for a POST they cannot:
// kubernetes.io/docs/reference/access-authn-authz/rbac, "Referring to resources").
package certificates
