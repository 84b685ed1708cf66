package catalogue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

func TestMoreThanThereIsRoomFor(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	r.most = 450
	const all = 500
	for i := range all {
		put(s, fmt.Sprintf("20261130-030017-m%08x-b%04d", i, i), time.Duration(i+1)*time.Minute, "db-0")
	}
	if wait := r.round("prod"); wait != soon {
		t.Errorf("the next is in %v", wait)
	}
	if d := r.document("prod"); d.New != mostLooks || d.Pending != r.most-mostLooks || d.Left != 50 {
		t.Errorf("%+v", d)
	}
	r.ask("1")
	r.round("prod")
	if r.answer() != "" {
		t.Error("it answers before it is done")
	}
	if n := r.rounds("prod"); n != 1 {
		t.Errorf("it takes %d rounds more", n)
	}
	if r.answer() != "1" {
		t.Error("it does not answer")
	}
	there := map[string]bool{}
	for _, b := range r.backups("prod") {
		there[b.Name] = b.Status.Phase == api.BackupComplete
	}
	if len(there) != r.most || !there["b0000"] || !there["b0449"] {
		t.Errorf("%d objects", len(there))
	}
	if d := r.document("prod"); d.Left != 50 || !strings.Contains(d.Message, "too many") || d.Backups != all || d.Pending != 0 {
		t.Errorf("%+v", d)
	}
	if len(r.asked.looks) != r.most {
		t.Errorf("it has looked into %d", len(r.asked.looks))
	}
}

// Whatever the API server refuses, and whenever the process ends, all objects come to
// be, each once.
func TestTroubleWithTheAPIServer(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	want := []string{}
	for i := range 20 {
		put(s, fmt.Sprintf("b%02d", i), time.Duration(i+1)*time.Hour, "db-0")
		want = append(want, fmt.Sprintf("b%02d Complete", i))
	}
	n := 0
	r.refuse = func(verb string, _ client.Object) error {
		if n++; verb == "status" && n%3 == 0 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "backups"}, "x", errors.New("changed"))
		}
		if verb != "get pod" && n%5 == 0 {
			return apierrors.NewInternalError(errors.New("etcd"))
		}
		return nil
	}
	for range 60 {
		r.clock = r.clock.Add(time.Minute)
		_, _ = r.Reconcile(context.Background(), requestOf("prod"))
		r.making = map[where]making{} // it has ended, and begins anew
		r.Catalogue.memory = map[string]*memory{}
	}
	r.refuse = nil
	r.rounds("prod")
	r.want("prod", want...)
}

// What a person says to be in the storage is looked for, also below another prefix.
func TestSaidByAPerson(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	put(s, "b1", time.Hour, "db-0")
	for name, existing := range map[string]api.ExistingBackup{"mine": {Name: "b1"}, "old": {Name: "b1", Prefix: "old-cluster"}, "wrong": {Name: "b7"}} {
		b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
		b.Spec.Existing = &existing
		r.create(b)
	}
	r.round("prod")
	r.want("prod", "mine Complete", "old Complete", "wrong")
	r.clock = r.clock.Add(apart)
	r.round("prod")
	r.want("prod", "mine Complete", "old Complete", "wrong Missing")
	if m := r.backup("prod", "wrong").Status.Message; !strings.Contains(m, "no backup b7") {
		t.Errorf("%q", m)
	}
	put(s, "b7", time.Hour, "db-0")
	r.round("prod")
	r.want("prod", "mine Complete", "old Complete", "wrong Complete")
}

func TestWithoutPods(t *testing.T) {
	r := newRig(t, "prod")
	r.round("prod")
	if d := r.document("prod"); d.Message == "" || d.Failed != "" {
		t.Errorf("%+v", d)
	}
	s := sidecartest.NewStorage("db-0", "db-1")
	r.nodes("prod", s, "db-0", "db-1")
	put(s, "b1", time.Hour, "db-0", "db-1")
	r.both["prod/db-0"].Agent.Close()
	r.round("prod") // the other one answers
	r.want("prod", "b1 Complete")
	r.both["prod/db-1"].Agent.Close()
	if wait := r.round("prod"); wait != afterFail {
		t.Errorf("the next is in %v", wait)
	}
	if d := r.document("prod"); d.Failed == "" || d.Pod != "db-0" {
		t.Errorf("%+v", d)
	}
	r.want("prod", "b1 Complete")
}

func TestNamespacesThatDoNotAsk(t *testing.T) {
	r, s := newRig(t, "prod", "kube-system"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}
	if err := r.client.Update(context.Background(), ns); err != nil {
		t.Fatal(err)
	}
	r.count = map[string]int{}
	for _, name := range []string{"prod", "kube-system", "stategraft", "gone"} {
		if wait := r.round(name); wait != 0 {
			t.Errorf("%s: the next is in %v", name, wait)
		}
	}
	if len(r.count) > 0 || r.asked.lists > 0 {
		t.Errorf("it does %v", r.count)
	}
}

func TestListing(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	put(s, "b1", time.Hour, "db-0")
	ctx := context.Background()
	if l := r.Listing(ctx, "prod", "", time.Minute); l.Failed != "" || len(l.Backups) != 1 || !l.Listed.Equal(r.clock) {
		t.Errorf("%+v", l)
	}
	put(s, "b2", time.Hour, "db-0")
	r.clock = r.clock.Add(30 * time.Second)
	if l := r.Listing(ctx, "prod", "", time.Minute); len(l.Backups) != 1 || r.asked.lists != 1 {
		t.Errorf("%+v", l)
	}
	if l := r.Listing(ctx, "prod", "", 0); len(l.Backups) != 2 || r.asked.lists != 2 {
		t.Errorf("%+v", l)
	}
	if l := r.Listing(ctx, "prod", "other", time.Minute); !strings.Contains(l.Failed, "looks below prefix") {
		t.Errorf("%+v", l)
	}
	if l := r.Listing(ctx, "empty", "", time.Minute); l.Failed == "" {
		t.Errorf("%+v", l)
	}
	fresh, err := New(Options{Namespace: "stategraft", Nodes: r.asked})
	if err != nil {
		t.Fatal(err)
	}
	if l := fresh.Listing(ctx, "prod", "", 0); l.Failed == "" {
		t.Errorf("%+v", l)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("it does without knowing whom to ask")
	}
}

// One backup that cannot be looked into keeps no other from being found.
func TestOneThatIsBroken(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	for i := range 5 {
		put(s, fmt.Sprintf("b%d", i), time.Duration(i)*time.Hour, "db-0")
	}
	r.asked.look = func(name string) error {
		if name == "b0" || name == "b2" {
			return &sidecar.AnswerError{Status: 503, Message: "its manifest takes too much memory"}
		}
		return nil
	}
	wait := r.round("prod")
	r.want("prod", "b1 Complete", "b3 Complete", "b4 Complete")
	if d := r.document("prod"); d.Failed != "" || d.Pending != 0 || d.Left != 2 || !strings.Contains(d.Message, "takes too much memory") || wait < r.every {
		t.Errorf("the next is in %v: %+v", wait, d)
	}
	// However many of the newest are broken, the others are found.
	for i := range 20 {
		put(s, fmt.Sprintf("d%02d", i), time.Duration(i)*time.Minute, "db-0")
	}
	r.asked.look = func(name string) error {
		if name[0] == 'd' && name != "d19" || name == "b0" || name == "b2" {
			return &sidecar.AnswerError{Status: 503, Message: "its manifest takes too much memory"}
		}
		return nil
	}
	for range 30 {
		r.round("prod")
	}
	r.want("prod", "b1 Complete", "b3 Complete", "b4 Complete", "d19 Complete")
	// Where none can be looked into, it is the storage.
	r.asked.look = func(string) error { return &sidecar.AnswerError{Status: 503, Message: "no such host"} }
	for i := range 50 {
		put(s, fmt.Sprintf("c%d", i), time.Duration(i)*time.Hour, "db-0")
	}
	r.asked.looks = nil
	r.round("prod")
	if d := r.document("prod"); d.Failed == "" || len(r.asked.looks) > 10 {
		t.Errorf("%d looks: %+v", len(r.asked.looks), d)
	}
}

// A workload that never answers does not have the storage of all others listed each
// minute.
func TestOneThatNeverAnswers(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0", "web-0")
	r.both["prod/web-0"].Close()
	put(s, "b1", time.Hour, "db-0")
	for until := r.clock.Add(2 * time.Hour); r.clock.Before(until); {
		r.clock = r.clock.Add(r.round("prod"))
	}
	if r.asked.lists > 20 {
		t.Errorf("the storage was listed %d times in two hours", r.asked.lists)
	}
	r.want("prod", "b1 Complete")
}
