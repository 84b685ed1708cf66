// Package rigged starts the rig's control plane with this repository's webhook
// in front of it: the built program as a process of its own, with the rights of
// its ServiceAccount and nothing more, registered by the very manifests that a
// cluster gets (deploy/stategraft-self-signed.yaml). Only the address differs: a
// URL on this machine in place of a Service. On request the controllers run too,
// the same way.
//
//	rig.go        start and stop of the whole
//	build.go      the repository's folder and programs
//	process.go    a process of ours
//	webhook.go    the webhook's process
//	controller.go the controllers' process
//	replicas.go   further processes of both
//	secret.go     the webhook's certificate, where the controllers make it
//	decisions.go  what the webhook says that it decided
//	register.go   what makes the API server call it
//	account.go    the ServiceAccounts and their kubeconfigs
package rigged
