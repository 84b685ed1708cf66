// Package rigged starts the rig's control plane with this repository's webhook
// in front of it: the built program as a process of its own, with the rights of
// its ServiceAccount (deploy/webhook.yaml) and nothing more, registered by the
// very manifests that a cluster gets (deploy/admission). Only the address
// differs: a URL on this machine in place of a Service.
//
//	rig.go        start and stop of the whole
//	build.go      the repository's folder and programs
//	webhook.go    the webhook's process
//	decisions.go  what the webhook says that it decided
//	register.go   what makes the API server call it
//	account.go    the webhook's ServiceAccount and kubeconfig
package rigged
