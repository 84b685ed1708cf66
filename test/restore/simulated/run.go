package simulated

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// Order is what the environment of a restore container asks for.
type Order struct {
	ID, Action, Backup, Source, Undo, Keep string
}

// OrderOf reads the environment; self is the pod's name.
func OrderOf(c *corev1.Container, self string) Order {
	var o Order
	for _, e := range c.Env {
		switch e.Name {
		case api.EnvRestoreID:
			o.ID = e.Value
		case patches.EnvBackup:
			o.Backup = e.Value
		case "STATEGRAFT_RESTORE_SOURCE":
			o.Source = e.Value
		case "STATEGRAFT_RESTORE_ACTION":
			o.Action = e.Value
		case "STATEGRAFT_RESTORE_UNDO":
			o.Undo = e.Value
		case "STATEGRAFT_KEEP_PREVIOUS":
			o.Keep = e.Value
		}
	}
	if o.Action == "" {
		o.Action = string(api.ActionRestore)
	}
	if o.Source == "" && o.Action == string(api.ActionRestore) {
		o.Source = self
	}
	if o.ID == "" { // asked for by the template
		o.ID = o.Backup
		if o.Source != self {
			o.ID += "@" + o.Source
		}
	}
	return o
}

// Restored names the data of a node's backup.
func Restored(backup, source string) string { return backup + " of " + source }

// Emptied is what is on a volume that was to be empty.
const Emptied = "nothing"

// result names what a volume holds once the order is carried out.
func (o Order) result(v *Volume) string {
	switch o.Action {
	case string(api.ActionEmpty):
		return Emptied
	case string(api.ActionUndo):
		return v.Previous[o.Undo]
	}
	return Restored(o.Backup, o.Source)
}

// run is a run of the restore container, in the agent's phases. A run that is killed
// is forgotten; the volume stays as it was left.
type run struct {
	order   Order
	volume  *Volume
	backups *Catalogue
	pace    pace

	phase   string
	until   time.Time
	started time.Time
	total   int64
	message string // once it is finished
}

// pace makes lengths of time.
type pace struct{ random *rand.Rand }

func (p pace) between(least, most time.Duration) time.Duration {
	return least + time.Duration(p.random.Int64N(int64(most-least)+1))
}

// begin starts the container's program.
func (r *run) begin(now time.Time) {
	r.started, r.phase = now, node.LookingUp
	r.until = now.Add(r.pace.between(20*time.Millisecond, 200*time.Millisecond))
}

// advance goes on to the next phase where it is time. Once ended is true, failed
// tells how.
func (r *run) advance(now time.Time) (ended bool, failed error) {
	if now.Before(r.until) {
		return false, nil
	}
	switch r.phase {
	case node.LookingUp:
		if done := r.volume.find(r.order.ID); done != nil {
			r.message = node.Outcome("restored already: nothing to do", *done)
			r.next(now, node.Finished, 20*time.Millisecond, 100*time.Millisecond)
			return false, nil
		}
		if err := r.look(); err != nil {
			return true, err
		}
		r.next(now, node.Downloading, 50*time.Millisecond, 600*time.Millisecond)
	case node.Downloading:
		r.volume.begin(r.order, now)
		r.next(now, node.Replacing, 50*time.Millisecond, 500*time.Millisecond)
	case node.Replacing:
		r.next(now, node.Verifying, 20*time.Millisecond, 200*time.Millisecond)
	case node.Verifying:
		done := r.volume.complete(r.order, r.total, now)
		r.message = node.Outcome("restored "+r.volume.Data, done)
		r.next(now, node.Finished, 20*time.Millisecond, 200*time.Millisecond)
	case node.Finished:
		return true, nil
	}
	return false, nil
}

func (r *run) next(now time.Time, phase string, least, most time.Duration) {
	r.phase, r.until = phase, now.Add(r.pace.between(least, most))
}

// look finds what the order needs, before anything is touched.
func (r *run) look() error {
	switch r.order.Action {
	case string(api.ActionEmpty):
		return nil
	case string(api.ActionUndo):
		if _, ok := r.volume.Previous[r.order.Undo]; !ok {
			return fmt.Errorf("no previous data of restore %q are kept", r.order.Undo)
		}
		return nil
	}
	member, err := r.backups.member(r.order.Backup, r.order.Source)
	r.total = member.Bytes
	return err
}

// progress is what the node API says of the run.
func (r *run) progress(now time.Time) *node.Progress {
	p := &node.Progress{ID: r.order.ID, Phase: r.phase, BytesTotal: r.total, Started: r.started.UTC()}
	switch r.phase {
	case node.Downloading:
		p.Bytes = r.total / 2
	case node.Replacing, node.Verifying, node.Finished:
		p.Bytes = r.total
	}
	return p
}
