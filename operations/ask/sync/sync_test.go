package sync

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/catalogue"
	"github.com/stategraft/stategraft/test/golden"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func store(funcs interceptor.Funcs, objects ...client.Object) client.Client {
	label := map[string]string{api.LabelInject: api.InjectEnabled}
	return fake.NewClientBuilder().WithScheme(ask.Scheme()).WithInterceptorFuncs(funcs).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: label}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", Labels: label}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}).WithObjects(objects...).Build()
}

func configMap(annotations map[string]string, documents ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: api.ConfigMapCatalogue, Annotations: annotations}, Data: map[string]string{}}
	for i, text := range documents {
		cm.Data[string(rune('a'+i))] = text
	}
	return cm
}

// What the controller writes is what is read here, member by member.
func TestDocumentIsTheControllers(t *testing.T) {
	ours, theirs := reflect.TypeFor[Document](), reflect.TypeFor[catalogue.Document]()
	if ours.NumField() != theirs.NumField() {
		t.Errorf("%d members, and the controller's has %d", ours.NumField(), theirs.NumField())
	}
	for i := range theirs.NumField() {
		their := theirs.Field(i)
		if our, ok := ours.FieldByName(their.Name); !ok || our.Tag != their.Tag || our.Type != their.Type {
			t.Errorf("%s is %s of %v, the controller's %s of %v", their.Name, our.Tag, our.Type, their.Tag, their.Type)
		}
	}
}

// Where nobody looks it is said what to do about it.
func TestAsk(t *testing.T) {
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "", errors.New(`User "u" cannot do that`))
	forbidden := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		return no
	}}
	cannot := interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return no
	}}
	for _, c := range []struct {
		what, namespace string
		client          client.Client
		want            string
	}{
		{"asked", "db", store(interceptor.Funcs{}, configMap(map[string]string{"x": "y"})), ""},
		{"no ConfigMap", "db", store(interceptor.Funcs{}), "there is no ConfigMap stategraft-catalogue in namespace db, which the controller makes: does the controller run"},
		{"not labelled any more", "plain", store(interceptor.Funcs{}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: api.ConfigMapCatalogue}}), "kubectl label namespace plain stategraft.io/inject=enabled"},
		{"not labelled", "plain", store(interceptor.Funcs{}), "kubectl label namespace plain stategraft.io/inject=enabled"},
		{"no namespace", "gone", store(interceptor.Funcs{}), `there is no namespace "gone"`},
		{"may not read the namespace", "db", store(forbidden), "which the controller makes in those with the label stategraft.io/inject=enabled: does the controller run"},
		{"may not ask", "db", store(cannot), "you have no right to patch configmaps in namespace db"},
	} {
		err := Ask(t.Context(), c.client, c.namespace, "now")
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		cm := &corev1.ConfigMap{}
		if err := errors.Join(err, c.client.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: api.ConfigMapCatalogue}, cm)); err != nil || cm.Annotations[api.AnnotationSync] != "now" || cm.Annotations["x"] != "y" {
			t.Errorf("%s: %v, %q", c.what, err, cm.Annotations)
		}
	}
	if names, err := Namespaces(t.Context(), store(interceptor.Funcs{})); err != nil || len(names) != 1 || names[0] != "db" {
		t.Errorf("%v, %q", err, names)
	}
}

// An answer is one to the value that was asked with, or to one that has taken its place:
// it was asked later.
func TestAnswered(t *testing.T) {
	for _, c := range []struct {
		sync, synced string
		want         bool
	}{
		{"mine", "mine", true}, {"mine", "earlier", false}, {"mine", "", false},
		{"theirs", "earlier", false}, {"theirs", "theirs", true}, {"theirs", "mine", true}, {"", "", false},
	} {
		if got := answered(configMap(map[string]string{api.AnnotationSync: c.sync, api.AnnotationSynced: c.synced}), "mine"); got != c.want {
			t.Errorf("asked %q, answered %q: %v", c.sync, c.synced, got)
		}
	}
}

// It is waited through errors that pass, what is still to be looked at is said, and that
// nobody seems to look.
func TestWait(t *testing.T) {
	looks, silent := 0, false
	cluster := store(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			cm, ok := o.(*corev1.ConfigMap)
			if !ok {
				return c.Get(ctx, key, o, opts...)
			}
			looks++
			switch {
			case looks == 2:
				return errors.New("connection refused")
			case looks > 40:
				*cm = *configMap(map[string]string{api.AnnotationSync: "v", api.AnnotationSynced: "v"}, `{"prefix":"p","pod":"db-0","backups":3}`)
			case !silent:
				*cm = *configMap(map[string]string{api.AnnotationSync: "v"}, `{"prefix":"p","pod":"db-0","pending":2}`)
			default:
				*cm = *configMap(map[string]string{api.AnnotationSync: "v"})
			}
			return nil
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			return c.List(ctx, list) // the client of the tests cannot select by fields
		},
	}, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "other"}})
	for _, want := range []string{"2 backups of the storage still to be looked into", "no controller seems to act on it: see kubectl stategraft check"} {
		var notes []string
		w := Waiter{Client: cluster, Every: time.Millisecond, Note: func(text string) { notes = append(notes, text) }}
		found, err := w.Wait(t.Context(), "db", "v")
		if err != nil || len(found) != 1 || found[0].Backups != 3 || len(notes) != 1 || notes[0] != want {
			t.Errorf("%v, %+v, %q", err, found, notes)
		}
		looks, silent = 0, true
	}
	w := Waiter{Client: store(interceptor.Funcs{}), Every: time.Millisecond}
	if _, err := w.Wait(t.Context(), "db", "v"); err == nil || !strings.Contains(err.Error(), "was deleted; ask again") {
		t.Error(err)
	}
}

// TestWrite compares what is shown with a golden file.
func TestWrite(t *testing.T) {
	cm := configMap(nil,
		`{"prefix":"db_ring","pod":"c-0","listed":"2026-11-30T11:58:00Z","backups":12,"complete":11,"new":2,"missing":1,"running":1,"left":3,"elsewhere":1,"message":"only the newest are looked at"}`,
		`{"prefix":"","pod":"d-0","backups":0,"complete":0,"new":0,"failed":"the bucket does not answer:\n503 \u001b[31m"}`,
		`not JSON`, `{}`)
	down := Documents(configMap(nil, `{"prefix":"","pod":"","backups":0,"complete":0,"new":0,"message":"no pod runs"}`))
	found := []Found{{"db", Documents(cm)}, {"empty", nil}, {"down", down}, {"down too", down}}
	well := []Found{{"db", found[0].Clusters[1:]}}
	if len(found[0].Clusters) != 2 || !Failed(found) || !Failed(found[1:2]) || !Failed(found[2:]) || Failed(well) {
		t.Errorf("%+v", found)
	}
	var out bytes.Buffer
	for _, list := range [][]Found{found, found[:1], found[1:2], found[2:3]} {
		if err := Write(&out, list, len(list) > 1, noon); err != nil {
			t.Fatal(err)
		}
		out.WriteString("==\n")
	}
	golden.Compare(t, "testdata/sync.txt", out.Bytes())
}
