package ask

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// object is a Restore or a Backup.
type object[O any] interface {
	*O
	client.Object
}

// look is what is looked at of an object that is asked for and followed.
type look struct {
	kind     string // as people say it
	resource string // in the words of RBAC
	list     client.ObjectList

	phase, message           string
	final, suspended, dryRun bool
	observed                 int64 // generation
	status                   any
	whileIdle                string // what is so until a controller acts again
}

// lookAt panics for what is neither: the compiler lets no other be followed from
// outside of this package.
func lookAt(of client.Object) look {
	switch o := of.(type) {
	case *api.Restore:
		s := &o.Status
		return look{kind: "Restore", resource: restores, list: &api.RestoreList{}, phase: string(s.Phase), message: s.Message,
			final: s.Phase.Final(), suspended: o.Spec.Suspend, dryRun: o.Spec.DryRun, observed: s.ObservedGeneration, status: *s,
			whileIdle: " Pods that it holds are held until one does, or the way is opened (docs/restore.md)"}
	case *api.Backup:
		s := &o.Status
		return look{kind: "Backup", resource: Backups, list: &api.BackupList{}, phase: string(s.Phase), message: s.Message,
			final: s.Phase.Final() && o.DeletionTimestamp.IsZero(), suspended: o.Spec.Suspend, dryRun: o.Spec.DryRun, observed: s.ObservedGeneration, status: *s,
			whileIdle: " One that starts again goes on where it was"}
	}
	panic("following an object of no known kind")
}

// command is the word by which the command line has the kind.
func (l look) command() string { return strings.ToLower(l.kind) }
