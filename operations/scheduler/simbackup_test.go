package scheduler

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// operate is the controller of Backups: one at a time is made or deleted. It tells
// whether something has changed.
func (s *sim) operate() (moved bool) {
	all := s.backups()
	slices.SortFunc(all, func(a, b api.Backup) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range all {
		b := &all[i]
		end, timed := s.ends[b.UID]
		over := timed && !s.now.Before(end)
		switch phase := b.Status.Phase; {
		case b.DeletionTimestamp != nil:
			moved = s.erase(b, over) || moved
		case phase.Final() || phase == api.BackupDeleting:
		case b.Status.Name == "":
			moved = s.accept(b) || moved
		case b.Spec.Cancel:
			s.finish(b, api.BackupCancelled)
			moved = true
		case over:
			_, as := s.fate(b)
			s.finish(b, as)
			moved = true
		}
	}
	return moved
}

func (s *sim) accept(b *api.Backup) bool {
	if _, _, held := s.holder("", ""); held {
		return false
	}
	if b.Spec.Cancel {
		b.Status.Phase, b.Status.Finished = api.BackupCancelled, new(stamp(s.now))
		s.must(s.server.Status().Update(context.Background(), b))
		return true
	}
	status := api.BackupStatus{Name: b.StorageName(), Prefix: "prod-c", Origin: api.BackupMade, Phase: api.BackupRunning, Started: new(stamp(s.now))}
	b.Finalizers = append(b.Finalizers, api.FinalizerBackup)
	s.must(s.server.Update(context.Background(), b))
	b.Status = status
	s.must(s.server.Status().Update(context.Background(), b))
	if lasts, _ := s.fate(b); lasts > 0 {
		s.ends[b.UID] = s.now.Add(lasts)
	}
	return true
}

func (s *sim) finish(b *api.Backup, as api.BackupPhase) {
	delete(s.ends, b.UID)
	b.Status.Phase, b.Status.Finished, b.Status.Message = as, new(stamp(s.now)), "it is "+string(as)
	sum := &node.Summary{Name: b.Status.Name, Started: b.Status.Started.Time, Finished: s.now, Complete: as == api.BackupComplete}
	switch as {
	case api.BackupComplete:
		b.Status.Objects, b.Status.Bytes = 10, 1000
		b.Status.Pods = []api.PodBackup{{Name: "c-0", Phase: api.PodBackupComplete, Objects: 10}}
	case api.BackupFailed: // nothing is stored
		sum = nil
	}
	if sum != nil {
		s.storage[b.Status.Name] = sum
	}
	s.must(s.server.Status().Update(context.Background(), b))
}

// erase deletes the data of a Backup that is deleted, if it is to, and lets it go.
func (s *sim) erase(b *api.Backup, over bool) bool {
	ctx := context.Background()
	if !b.Keeps() && b.Status.Phase != api.BackupDeleting {
		if _, _, held := s.holder("", ""); held {
			return false
		}
		b.Status.Phase = api.BackupDeleting
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: api.ConditionDeleted, Status: metav1.ConditionFalse, Reason: reasonDeleting, LastTransitionTime: stamp(s.now)})
		s.must(s.server.Status().Update(ctx, b))
		s.ends[b.UID] = s.now.Add(s.busy)
		return true
	}
	if !b.Keeps() {
		if !over {
			return false
		}
		delete(s.storage, b.Status.Name)
	}
	delete(s.ends, b.UID)
	b.Finalizers = nil
	s.must(client.IgnoreNotFound(s.server.Update(ctx, b)))
	return true
}

// byHand makes a Backup as a person would.
func (s *sim) byHand(name string) {
	s.must(s.create(&api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}, Spec: api.BackupSpec{Pods: &api.BackupPods{Workload: &api.BackupWorkload{Name: "c"}}}}))
}

// complete are the names of the schedule's complete Backups, the newest first.
func (s *sim) complete() (names []string) {
	for _, b := range s.backups() {
		if b.Labels[api.LabelSchedule] == "nightly" && b.Status.Phase == api.BackupComplete && b.DeletionTimestamp == nil {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names
}

// at is a clock time of the first days of the simulation.
func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}
