package ask

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func TestTargets(t *testing.T) {
	objects := slices.Concat(set("cassandra", 3, "10", "2", "0"), set("short", 3, "0"), set("down", 0), set("lost", 1))
	for _, c := range []struct {
		args     string
		selector string
		names    string // with the workload before them
		err      string
	}{
		{"pod/cassandra-2", "", "cassandra: cassandra-2", ""},
		{"pod cassandra-2 cassandra-0", "", "cassandra: cassandra-2 cassandra-0", ""},
		{"po/cassandra-2 pods/cassandra-2", "", "cassandra: cassandra-2", ""},
		{"statefulset/cassandra", "", "cassandra: cassandra-0 cassandra-2 cassandra-10", ""},
		{"STS/cassandra pod/short-0 pod/cassandra-0", "", "cassandra: cassandra-0 cassandra-2 cassandra-10 short-0", ""},
		{"pod/cassandra-stray", "", "cassandra-stray: cassandra-stray", ""},
		{"", "app in (short),app", "short: short-0 short-stray", ""},

		{"", "", "", "which pods?"},
		{"cassandra-0", "", "", "cassandra-0: it takes pod/NAME or statefulset/NAME, or a command: list"},
		{"pod/", "", "", "it takes pod/NAME"},
		{"deployment/web", "", "", "only pods and StatefulSets can be restored"},
		{"pod cassandra-0 pod/x", "", "", "after pod names are taken"},
		{"pod/cassandra-7", "", "", "there is no pod cassandra-7 in namespace db; there are cassandra-0, cassandra-2, cassandra-10, short-0"},
		{"statefulset/none", "", "", "there is no statefulset none in namespace db"},
		{"statefulset/short", "", "", "statefulset short of namespace db is to have 3 pods and there are only short-0"},
		{"statefulset/lost", "", "", "and none of them is there"},
		{"statefulset/down", "", "", "is scaled to 0"},
		{"", "app=nothing", "", "no pod of namespace db has the labels app=nothing; there are cassandra-0"},
		{"", "a b", "", "-l a b: "},
		{"", " ", "", "it selects every pod"},
		{"", "a>1", "", "no operator gt"},
		{"", "a=1,a=2", "", "a cannot be both"},
		{"pod/cassandra-0", "app=x", "", "exclude one another"},
	} {
		targets, err := ParseTargets(strings.Fields(c.args))
		var got *Pods
		if err == nil {
			got, err = Resolve(t.Context(), store(nil, objects...), "db", targets, c.selector)
		}
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s %s: %v, want %q", c.args, c.selector, err, c.err)
			}
			continue
		}
		if err != nil || got.Workload+": "+strings.Join(got.Names, " ") != c.names || (got.Selector != nil) != (c.selector != "") {
			t.Errorf("%s %s: %+v, %v, want %s", c.args, c.selector, got, err, c.names)
		}
	}
}

// What must not be read is named with its verb, and how to ask about it.
func TestNoRight(t *testing.T) {
	no := func(resource string) error {
		return apierrors.NewForbidden(corev1.Resource(resource), "", errors.New(`User "u" cannot do it`))
	}
	c := store(&interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return no("pods")
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return no("pods")
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return no("restores")
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return no("restores")
		},
	})
	_, pod := Resolve(t.Context(), c, "db", []Target{{Name: "x"}}, "")
	_, selected := Resolve(t.Context(), c, "db", nil, "a=b")
	_, set := Resolve(t.Context(), c, "db", []Target{{StatefulSet: true, Name: "x"}}, "")
	_, list := List(t.Context(), c, "")
	for want, err := range map[string]error{
		"get pods in namespace db (kubectl auth can-i get pods -n db)":                                           pod,
		"list pods in namespace db (kubectl auth can-i list pods -n db)":                                         selected,
		"get statefulsets.apps in namespace db (kubectl auth can-i get statefulsets.apps -n db)":                 set,
		"list restores.stategraft.io (kubectl auth can-i list restores.stategraft.io --all-namespaces)":          list,
		"create restores.stategraft.io in namespace db (kubectl auth can-i create restores.stategraft.io -n db)": Create(t.Context(), c, restoreR(), false),
		"patch restores.stategraft.io in namespace db (kubectl auth can-i patch restores.stategraft.io -n db)":   Cancel.Apply(t.Context(), c, restoreR()),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "you have no right to "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Refusals that are no lacking right are not called so.
func TestExplain(t *testing.T) {
	for want, err := range map[string]error{
		"create restores.stategraft.io in namespace db: ":        apierrors.NewForbidden(resource, "", errors.New("the policy denies it")),
		"this cluster has no Restores":                           unserved(),
		`there is no namespace "db"`:                             apierrors.NewNotFound(corev1.Resource("namespaces"), "db"),
		"create restores.stategraft.io in namespace db: refused": errors.New("refused"),
	} {
		if got := Explain(err, "create", restores, "db", ""); got == nil || !strings.HasPrefix(got.Error(), want) {
			t.Errorf("%v, want %q", got, want)
		}
	}
	if got := Explain(context.DeadlineExceeded, "get", pods, "db", "x"); got != context.DeadlineExceeded {
		t.Errorf("%v", got)
	}
	if Explain(nil, "get", pods, "db", "") != nil {
		t.Error("nil is an error")
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 46) + "-" + strings.Repeat("b", 50)
	for _, c := range []struct{ name, undo, workload, want string }{
		{"", "", "cassandra", "cassandra-20261130-120000"},
		{"mine", "", "cassandra", "mine"},
		{"", "", long, strings.Repeat("a", 46) + "-20261130-120000"},
		{"", "cassandra-20261130-115000", "", "cassandra-undo-20261130-120000"},
		{"", "cassandra-undo-20261130-115000-2", "", "cassandra-undo-20261130-120000"},
		{"", "mine", "", "mine-undo-20261130-120000"},
	} {
		r, err := Request{Name: c.name, Undo: c.undo, Pods: Pods{Workload: c.workload}}.Restore(noon)
		if err != nil || r.Name != c.want || len(r.Name) > nameLength {
			t.Errorf("%+v: %s, %v", c, r.Name, err)
		}
	}

	c := store(nil, &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "r"}})
	second := restoreR()
	if err := Create(t.Context(), c, second, true); err != nil || second.Name != "r-2" {
		t.Errorf("%s, %v", second.Name, err)
	}
	if err := Create(t.Context(), c, restoreR(), false); err == nil || !strings.Contains(err.Error(), "there is a Restore r in namespace db already") {
		t.Errorf("%v", err)
	}
}

func TestBackup(t *testing.T) {
	for text, ok := range map[string]bool{"latest": true, "nightly-20261130": true, "2026-11-30": true, "2026-11-30T08:00:00Z": true, "2026-11-30T08:00:00+01:00": true,
		"": false, "2026-11-30T08:00": false, "2026-11-30 08:00:00": false, "2026-11-30T08:00:00": false} {
		if err := ParseBackup(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The selector of the object selects what that of the command line does.
func TestSelector(t *testing.T) {
	pods := []labels.Set{{}, {"a": "1"}, {"a": "2", "b": ""}, {"b": "x"}, {"a": "1", "b": "x", "c": "y"}}
	for _, text := range []string{"a=1", "a==1,b", "a!=1", "!a", "a in (1,2),b", "b notin (x),a", "a=1,c=y,b=x"} {
		want, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		object, err := asObject(want)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := metav1.LabelSelectorAsSelector(object)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, pod := range pods {
			if got.Matches(pod) != want.Matches(pod) {
				t.Errorf("%s as %s: another answer for %v", text, got, pod)
			}
		}
	}
}

func TestOrder(t *testing.T) {
	names := []string{"db-10", "db-2", "a-1", "db", "db-x", "1", "db-2"}
	slices.SortFunc(names, Compare)
	if want := []string{"1", "a-1", "db", "db-2", "db-2", "db-10", "db-x"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%q", names)
	}
}
