package removal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	one   = "20261130-030017-s1a2b3c4d-nightly-20261130-030000"
	two   = "20261130-040017-s2a2b3c4d-nightly-20261130-040000"
	three = "20261130-050017-m3a2b3c4d-before"
)

// rig is a cluster of real sidecars with a simulated Medusa.
type rig struct {
	*Remover
	t       *testing.T
	storage *sidecartest.Storage
	both    []*sidecartest.Both
	pods    []corev1.Pod
	work    map[string]sidecartest.Work
}

func newRig(t *testing.T, nodes ...string) *rig {
	r := &rig{t: t, storage: sidecartest.NewStorage(nodes...), work: map[string]sidecartest.Work{}}
	for i, name := range nodes {
		b, err := sidecartest.StartBoth(sidecartest.Address(i), sidecartest.Pair{}, sidecartest.Node{Name: name, Storage: r.storage,
			Work: func(backup string, _ bool) sidecartest.Work { return r.work[backup] }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		r.both, r.pods = append(r.both, b), append(r.pods, *b.Pod("prod", name))
	}
	c := sidecar.New(nil)
	r.Remover = &Remover{Nodes: c, Medusas: c, Clock: func() time.Time { return now }}
	return r
}

func (r *rig) put(name string, nodes ...string) {
	for _, n := range nodes {
		r.storage.Put(name, n, sidecartest.Part{Started: now.Add(-9 * time.Hour), Finished: now.Add(-8 * time.Hour), Objects: 5, Bytes: 50})
	}
}

func (r *rig) begun(name, node string, ago time.Duration) {
	r.storage.Put(name, node, sidecartest.Part{Started: now.Add(-ago)})
}

// want says for what reason the removal waits; "" for none.
func (r *rig) want(b *api.Backup, reason Reason) {
	r.t.Helper()
	err := r.Remove(context.Background(), b, r.pods)
	var wait *Wait
	switch {
	case errors.As(err, &wait) && wait.Reason == reason:
		if !slices.Contains(Reasons, reason) || wait.Message == "" || strings.Contains(wait.Message, "%!") {
			r.t.Errorf("%s: %q", wait.Reason, wait.Message)
		}
	case reason != "" || err != nil:
		r.t.Errorf("%v, want reason %q", err, reason)
	}
}

func (r *rig) left(names ...string) {
	r.t.Helper()
	if got := r.storage.Names(); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
		r.t.Errorf("the storage has %v, want %v", got, names)
	}
	if damaged := r.storage.Damaged(); len(damaged) > 0 {
		r.t.Errorf("damaged are %v", damaged)
	}
}

func made(name string, pods ...string) *api.Backup {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
	b.Status.Name, b.Status.Phase = name, api.BackupComplete
	for _, p := range pods {
		b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: p, Phase: api.PodBackupComplete})
	}
	return b
}

func found(name string) *api.Backup {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "x"}}
	b.Spec.Existing = &api.ExistingBackup{Name: name}
	return b
}

func TestRemove(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(r *rig)
		b    *api.Backup
		want Reason
		left []string
	}{
		"of all nodes":           {func(r *rig) { r.put(one, "a", "b"); r.put(two, "a", "b") }, made(one, "a", "b"), "", []string{two}},
		"found in the storage":   {func(r *rig) { r.put("b1", "a", "b") }, found("b1"), "", nil},
		"only one has a part":    {func(r *rig) { r.put(one, "b"); r.put(two, "a") }, made(one, "a", "b"), "", []string{two}},
		"one that is incomplete": {func(r *rig) { r.begun(one, "b", time.Hour) }, made(one, "a", "b"), "", nil},
		"never asked for":        {func(r *rig) { r.put(one, "a") }, &api.Backup{}, "", []string{one}},
		"nothing of it":          {func(r *rig) { r.put(two, "a") }, made(one, "a"), "", []string{two}},
		"a pod without sidecar": {func(r *rig) {
			r.put(one, "b")
			r.pods[0] = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "a"}, Status: corev1.PodStatus{PodIP: "127.0.0.1"}}
		}, made(one, "a", "b"), "", nil},
		"a sidecar that does not answer": {func(r *rig) { r.put(one, "a", "b"); r.both[0].Close() }, made(one, "a", "b"), "", nil},
		"Medusa does not answer":         {func(r *rig) { r.put(one, "a", "b"); r.both[0].Kill() }, made(one, "a", "b"), "", nil},
		"no Medusa answers":              {func(r *rig) { r.put(one, "a", "b"); r.both[0].Kill(); r.both[1].Kill() }, made(one, "a", "b"), SidecarUnreachable, []string{one}},
		"no sidecar answers":             {func(r *rig) { r.put(one, "a", "b"); r.both[0].Close(); r.both[1].Close() }, made(one, "a", "b"), SidecarUnreachable, []string{one}},
		"no pods":                        {func(r *rig) { r.put(one, "a"); r.pods = nil }, made(one, "a"), NoSidecar, []string{one}},
		"the pods go": {func(r *rig) {
			r.put(one, "a")
			r.pods[0].DeletionTimestamp, r.pods[1].Status.PodIP = new(metav1.Now()), ""
		}, made(one, "a"), NoSidecar, []string{one}},
		"only a node that is gone has a part": {func(r *rig) { r.put(one, "c") }, made(one, "c"), NodesGone, []string{one}},
		"of another prefix": {func(r *rig) { r.put(one, "a") }, func() *api.Backup {
			b := made(one, "a")
			b.Status.Prefix = "other"
			return b
		}(), OtherStorage, []string{one}},
		"the beginning of another":          {func(r *rig) { r.put("b1", "a"); r.put("b10", "a") }, found("b1"), Unsafe, []string{"b1", "b10"}},
		"another is its beginning":          {func(r *rig) { r.put("b1", "a"); r.put("b10", "a") }, found("b10"), "", []string{"b1"}},
		"d":                                 {func(r *rig) { r.put("d", "a") }, found("d"), Unsafe, []string{"d"}},
		"da":                                {func(r *rig) { r.put("da", "a") }, found("da"), Unsafe, []string{"da"}},
		"dat":                               {func(r *rig) { r.put("dat", "a") }, found("dat"), Unsafe, []string{"dat"}},
		"data":                              {func(r *rig) { r.put("data", "a") }, found("data"), Unsafe, []string{"data"}},
		"database-1":                        {func(r *rig) { r.put("database-1", "a") }, found("database-1"), Unsafe, []string{"database-1"}},
		"beside one called database-1":      {func(r *rig) { r.put("database-1", "a"); r.put(one, "a") }, made(one, "a"), Unsafe, []string{"database-1", one}},
		"of k8ssandra's":                    {func(r *rig) { r.put("medusa-backup-schedule-1701313200", "a"); r.put(one, "a") }, found("medusa-backup-schedule-1701313200"), "", []string{one}},
		"another's began and ended badly":   {func(r *rig) { r.put(one, "a"); r.begun("foreign", "b", time.Hour) }, made(one, "a"), "", []string{"foreign"}},
		"another's runs on a node unknown":  {func(r *rig) { r.put(one, "a"); r.begun("foreign", "z", time.Hour) }, made(one, "a"), BackupRuns, []string{"foreign", one}},
		"another's runs on one that is not": {func(r *rig) { r.put(one, "a"); r.begun("foreign", "b", time.Hour); r.both[1].Close() }, made(one, "a"), BackupRuns, []string{"foreign", one}},
		"another's was given up long ago":   {func(r *rig) { r.put(one, "a"); r.begun("foreign", "z", 25*time.Hour) }, made(one, "a"), "", []string{"foreign"}},
		"trouble with the storage":          {func(r *rig) { r.put(one, "a"); r.storage.SetTrouble(errors.New("503 Slow Down")) }, made(one, "a"), StorageUnreachable, []string{one}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a", "b")
			c.do(r)
			r.want(c.b, c.want)
			r.left(c.left...)
		})
	}
}

// A backup of whomever keeps the files of all until it is over.
func TestWaitsForARunningBackup(t *testing.T) {
	r := newRig(t, "a", "b")
	r.put(one, "a", "b")
	r.work["foreign"] = sidecartest.Work{Takes: time.Hour, Objects: 1}
	m, err := sidecar.New(nil).Medusa(context.Background(), &r.pods[1])
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Begin(context.Background(), "foreign", false); err != nil {
		t.Fatal(err)
	}
	for report := (node.Report{}); !report.BackupRunning; {
		if report, err = r.Nodes.Report(context.Background(), &r.pods[1]); err != nil {
			t.Fatal(err)
		}
	}
	r.want(made(one, "a", "b"), BackupRuns)
	if !slices.Contains(r.storage.Names(), one) || len(r.storage.Damaged()) > 0 {
		t.Errorf("the storage has %v, damaged are %v", r.storage.Names(), r.storage.Damaged())
	}
	if err := r.both[1].Restart(); err != nil { // it ends the backup
		t.Fatal(err)
	}
	r.want(made(one, "a", "b"), "")
	if slices.Contains(r.storage.Names(), one) || len(r.storage.Damaged()) > 0 {
		t.Errorf("the storage has %v, damaged are %v", r.storage.Names(), r.storage.Damaged())
	}
}
