// Package backup asks for Backups for a person at a terminal, follows them and deletes
// them: what kubectl stategraft backup does. It talks to the API server and to nothing
// else; the controller does what was asked for.
//
//	request.go   the object that is made of the command line
//	targets.go   the pods that are meant
//	progress.go  how far the pods are, as it changes
//	plan.go      the plan, from a dry run
//	doubts.go    what can be seen to speak against it
//	list.go      the table of Backups
//	find.go      one of them, by its name or that in the storage
//	show.go      one in full: show_facts.go, show_pods.go
//	next.go      what to do next
//	change.go    cancel, suspend, resume, pin, unpin
//	delete.go    the object, with its data or without
package backup

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// Request is what is asked for. What is left out stays out of the object, and what
// counts then is the API's.
type Request struct {
	Namespace string
	Name      string // of the Backup; made up if empty
	Targets   Targets

	Type     api.BackupType
	Parallel int32
	Timeout  time.Duration
	Retries  *int32
	Policy   api.DeletionPolicy
	Pinned   bool
}

// Backup is the object.
func (r *Request) Backup(now time.Time) *api.Backup {
	name := r.Name
	if name == "" {
		name = ask.MadeUp(r.Targets.Workload, now)
	}
	out := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name}}
	pods := r.Targets.Pods
	out.Spec = api.BackupSpec{Pods: &pods, Type: r.Type, Parallel: r.Parallel, Retries: r.Retries, DeletionPolicy: r.Policy, Pinned: r.Pinned}
	if r.Timeout > 0 {
		out.Spec.Timeout = &metav1.Duration{Duration: r.Timeout}
	}
	return out
}

// CheckName tells why a Backup cannot be called so.
func CheckName(name string) error {
	const most = 63
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("--name %s: %s", name, problems[0])
	}
	if len(name) > most {
		return fmt.Errorf("--name %s: it takes at most %d characters, as it is part of the name in the storage", name, most)
	}
	if name == api.BackupLatest {
		return fmt.Errorf("--name %s: restore --backup %s is the newest backup, whatever it is called", name, name)
	}
	return nil
}

// sorted are pods by owner and ordinal.
func sorted(pods []api.PodBackup) []api.PodBackup {
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b api.PodBackup) int { return ask.Compare(a.Name, b.Name) })
	return out
}
