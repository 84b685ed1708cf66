package catalogue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

const (
	nightly = "20261130-030017-s1a2b3c4d-nightly-20261130-030000"
	before  = "20261129-030017-m1a2b3c4d-before"
)

// After the loss of all objects, and of the cluster, all come back as what they were
// called, with their topology.
func TestFreshCluster(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0", "db-1")
	r.nodes("prod", s, "db-0", "db-1")
	put(s, nightly, 9*time.Hour, "db-0", "db-1")
	put(s, before, 30*time.Hour, "db-0")
	put(s, "b1", 50*time.Hour, "db-0", "db-1")
	if wait := r.round("prod"); wait < DefaultEvery || wait > DefaultEvery*11/10 {
		t.Errorf("the next is in %v", wait)
	}
	r.want("prod", "nightly-20261130-030000 Complete", "before Partial", "b1 Complete")
	b := r.backup("prod", "nightly-20261130-030000")
	if b.Labels[api.LabelSchedule] != "nightly" || b.Spec.DeletionPolicy != api.DeletionKeep || !slices.Contains(b.Finalizers, api.FinalizerBackup) {
		t.Errorf("%+v, %+v", b.ObjectMeta, b.Spec)
	}
	is := b.Status
	if is.Name != nightly || is.Origin != api.BackupFound || is.Objects != 10 || is.Bytes != 2<<20 || is.Type != api.BackupDifferential || is.Database != "4.1.10" ||
		is.Progress != (api.BackupProgress{Pods: "2/2", Size: "2.0MiB"}) || !is.Started.Time.Equal(start.Add(-9*time.Hour)) || !is.Finished.Time.Equal(start.Add(-9*time.Hour+time.Minute)) || is.Listed == nil {
		t.Errorf("%+v", is)
	}
	if p := is.Pod("db-1"); p == nil || p.Datacenter != "dc1" || p.Rack != "r1" || p.Tokens != 1 || p.Objects != 5 || p.Phase != api.PodBackupComplete {
		t.Errorf("%+v", p)
	}
	for kind, want := range map[string]bool{api.ConditionAccepted: true, api.ConditionCompleted: true, api.ConditionStored: true, api.ConditionFailed: false} {
		if meta.IsStatusConditionTrue(is.Conditions, kind) != want {
			t.Errorf("%s is not %v", kind, want)
		}
	}
	if p := r.backup("prod", "before").Status.Pod("db-1"); p == nil || p.Phase != api.PodBackupGone || p.Rack != "r1" {
		t.Errorf("%+v", p)
	}
	if d := r.document("prod"); d.Backups != 3 || d.Complete != 2 || d.New != 3 || d.Pod != "db-0" || d.Failed != "" || d.Pending != 0 || d.Listed.IsZero() {
		t.Errorf("%+v", d)
	}
	// A second round finds all as it is, and writes nothing.
	r.count = map[string]int{}
	r.round("prod")
	if len(r.count) > 0 || len(r.asked.looks) != 3 {
		t.Errorf("it does %v, and has looked at %v", r.count, r.asked.looks)
	}
}

func TestRequestsOfARound(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0", "db-1", "db-2")
	r.nodes("prod", s, "db-0", "db-1", "db-2")
	put(s, "b1", time.Hour, "db-0", "db-1", "db-2")
	r.count = map[string]int{}
	r.round("prod")
	if want := map[string]int{"get pod": 1, "create": 1, "status": 1, "apply": 1}; !maps.Equal(r.count, want) {
		t.Errorf("%v, want %v", r.count, want)
	}
}

func TestNamesOfOtherTools(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	long := strings.Repeat("x", 200)
	for i, name := range []string{"medusa-backup-schedule-1701313200", "d", "da", "dat", "data", "database-1", "Before_Upgrade", "2026-11-30T03:00:00+01", long, "with space", "-x", "a..b", before, "before", "v1.2"} {
		put(s, name, time.Duration(i+1)*time.Hour, "db-0")
	}
	r.round("prod")
	r.want("prod", "medusa-backup-schedule-1701313200 Complete", "d Complete", "da Complete", "dat Complete", "data Complete", "database-1 Complete", "v1.2 Complete",
		api.ObjectName("", "Before_Upgrade", false)+" Complete", api.ObjectName("", "2026-11-30T03:00:00+01", false)+" Complete", api.ObjectName("", long, false)+" Complete",
		"before Complete", api.ObjectName("", "before", true)+" Complete")
	if stored := r.backup("prod", "before").Status.Name; stored != before {
		t.Errorf("the name is taken by %s", stored)
	}
	if d := r.document("prod"); d.Backups != 15 || d.Left != 3 || !strings.Contains(d.Message, "3 backups get no object") {
		t.Errorf("%+v", d)
	}
	looks := len(r.asked.looks)
	r.round("prod") // it does not try again and again
	if len(r.asked.looks) != looks {
		t.Errorf("it looks at %v", r.asked.looks[looks:])
	}
}

func TestForeignBackupThatRuns(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0", "db-1")
	r.nodes("prod", s, "db-0", "db-1")
	put(s, "x", time.Hour, "db-0")
	begin(s, "x", time.Hour, "db-1")
	r.asked.running["db-1"] = "x"
	r.round("prod")
	r.want("prod")
	if d := r.document("prod"); d.Running != 1 || d.Pending != 0 {
		t.Errorf("%+v", d)
	}
	r.asked.running["db-1"] = "another"
	r.round("prod")
	r.want("prod", "x Partial")
	// It did not end there.
	put(s, "x", time.Hour, "db-1")
	r.round("prod")
	r.want("prod", "x Complete")
	// A node that cannot be asked is given a day.
	begin(s, "y", time.Hour, "gone-0")
	r.round("prod")
	r.want("prod", "x Complete")
	r.clock = r.clock.Add(24 * time.Hour)
	r.round("prod")
	r.want("prod", "x Complete", "y Failed")
}

func TestTwoNamespacesOnePrefix(t *testing.T) {
	r, s := newRig(t, "prod", "test"), sidecartest.NewStorage("db-0")
	r.asked.prefixes["prod"], r.asked.prefixes["test"] = "c", "c"
	r.nodes("prod", s, "db-0")
	r.nodes("test", s, "db-0")
	put(s, "b1", time.Hour, "db-0")
	r.round("prod")
	r.round("test")
	r.want("prod", "b1 Complete")
	r.want("test")
	if d := r.document("test"); d.Elsewhere != 1 || d.Prefix != "c" {
		t.Errorf("%+v", d)
	}
	// Also where both are looked at at the same time.
	put(s, "b2", time.Minute, "db-0")
	r.asked.during = func() {
		r.asked.during = nil
		r.round("test")
	}
	r.round("prod")
	r.want("prod", "b1 Complete")
	r.want("test", "b2 Complete")
	// When its object goes it may come back in either.
	r.remove("prod", "b1")
	r.round("test")
	r.round("prod")
	r.want("prod")
	r.want("test", "b1 Complete", "b2 Complete")
}

// The same prefix of two buckets, and a name that is in both.
func TestTwoBucketsOnePrefix(t *testing.T) {
	r, s, other := newRig(t, "prod", "test"), sidecartest.NewStorage("db-0"), sidecartest.NewStorage("db-0")
	r.asked.prefixes["prod"], r.asked.prefixes["test"] = "c", "c"
	r.nodes("prod", s, "db-0")
	r.nodes("test", other, "db-0")
	put(s, "weekly", time.Hour, "db-0")
	put(other, "weekly", 2*time.Hour, "db-0")
	r.round("prod")
	r.round("test")
	r.want("prod", "weekly Complete")
	r.want("test", "weekly Complete")
}

// Without a prefix, namespaces are apart.
func TestTwoNamespacesNoPrefix(t *testing.T) {
	r, s := newRig(t, "prod", "test"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	r.nodes("test", s, "db-0")
	put(s, "b1", time.Hour, "db-0")
	r.round("prod")
	r.round("test")
	r.want("prod", "b1 Complete")
	r.want("test", "b1 Complete")
}

func (r *rig) ask(value string) {
	r.t.Helper()
	cm := &corev1.ConfigMap{}
	if err := r.client.Get(context.Background(), types.NamespacedName{Namespace: "prod", Name: api.ConfigMapCatalogue}, cm); err != nil {
		r.t.Fatal(err)
	}
	if cm.Annotations == nil {
		cm.Annotations = map[string]string{}
	}
	cm.Annotations[api.AnnotationSync] = value
	if err := r.client.Update(context.Background(), cm); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) answer() string {
	r.t.Helper()
	cm := &corev1.ConfigMap{}
	if err := r.client.Get(context.Background(), types.NamespacedName{Namespace: "prod", Name: api.ConfigMapCatalogue}, cm); err != nil {
		r.t.Fatal(err)
	}
	return cm.Annotations[api.AnnotationSynced]
}

func TestAskedTwice(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	r.round("prod")
	if got := r.answer(); got != "" {
		t.Errorf("it answers %q", got)
	}
	r.ask("1")
	put(s, "b1", time.Hour, "db-0")
	r.asked.during = func() { r.asked.during = nil; r.ask("2"); put(s, "b2", time.Hour, "db-0") } // after the listing was made
	r.round("prod")
	if got := r.answer(); got != "1" {
		t.Errorf("it answers %q", got)
	}
	r.want("prod", "b1 Complete")
	r.round("prod")
	if got := r.answer(); got != "2" {
		t.Errorf("it answers %q", got)
	}
	r.want("prod", "b1 Complete", "b2 Complete")
	r.count = map[string]int{}
	r.round("prod")
	if r.count["apply"] != 0 { // it is answered once
		t.Errorf("%v", r.count)
	}
	// The answer stays when something else is written.
	put(s, "b3", time.Hour, "db-0")
	r.round("prod")
	if got := r.answer(); got != "2" {
		t.Errorf("it answers %q", got)
	}
	s.SetTrouble(errors.New("503")) // also one that failed is an answer
	r.ask("3")
	r.round("prod")
	if got := r.answer(); got != "3" || r.document("prod").Failed == "" {
		t.Errorf("it answers %q", got)
	}
}

func TestConfigMapDeletedByHand(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	put(s, "b1", time.Hour, "db-0")
	r.round("prod")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: api.ConfigMapCatalogue}}
	if err := r.client.Delete(context.Background(), cm); err != nil {
		t.Fatal(err)
	}
	r.round("prod")
	if d := r.document("prod"); d.Backups != 1 {
		t.Errorf("%+v", d)
	}
}

// Backups of other nodes below the same prefix may be those of the same database's other
// datacenter, in another cluster of Kubernetes, where a schedule has the same name: the
// schedule here is not to delete them.
func TestSchedulesElsewhere(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0", "east-0")
	r.nodes("prod", s, "db-0")
	ours, theirs, both := nightly, "20261130-030117-s2a2b3c4d-nightly-20261130-030100", "20261130-030217-s3a2b3c4d-nightly-20261130-030200"
	put(s, ours, 9*time.Hour, "db-0")
	put(s, theirs, 9*time.Hour, "east-0")
	put(s, both, 9*time.Hour, "db-0", "east-0")
	r.round("prod")
	for name, want := range map[string]string{"nightly-20261130-030000": "nightly", "nightly-20261130-030100": "", "nightly-20261130-030200": "nightly"} {
		if got := r.backup("prod", name).Labels[api.LabelSchedule]; got != want {
			t.Errorf("%s is of schedule %q, want %q", name, got, want)
		}
	}
}
